// Which frames' keys the frames of a block look at. A block at hand is one part, which sees all that its rings have. A whole
// clip in one pass, as if block after block had been made, is a block of all its frames in rings that have room for them, whose
// parts each see what a block in their place would see: training's block-causal mask, but at the cost of no mask, since the
// keys of a part lie side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kv_ring.h"

namespace tachy {

struct WanMask {
  std::vector<int64_t> parts;  // latent frames of each; empty: no mask
  int64_t frames = 0;          // that a part sees, its own among them; 0: all before it
  int64_t sinks = 0;           // the clip's first ones among these, of self-attention
};

// Frames [first, end) of the block at hand see what lies in slots [from, until) of a ring. Where some before `from` are out
// of sight, self-attention sees slots [0, sinks) in place of as many from `from` on.
struct WanPart {
  int64_t first, end, from, until, sinks = 0;
  Tensor seen(const Tensor& t) const { return t.slice(0, from, until); }
};

// Of a block of so many frames, the last of which is before frame `end`; without parts it is one. attend(part, keys, values):
// keys and values [frames, tokens, channels], all that are there.
template <class Attend>
void attend_parts(std::span<const WanPart> parts, int64_t frames, const runtime::KvRing& ring, int64_t layer,
                  int64_t end, Attend&& attend) {
  const Tensor k = ring.keys(layer, end), v = ring.values(layer, end);
  const WanPart whole{0, frames, 0, k.dim(0)};
  for (const WanPart& p : parts.empty() ? std::span(&whole, 1) : parts) attend(p, k, v);
}

}  // namespace tachy
