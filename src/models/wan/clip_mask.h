// Says which frames' keys the frames of a block look at. A block that is made by itself is one part, which
// sees all that its rings have. A whole clip in one pass, with the results of making it block by block, is a
// single block of all its frames, in rings that have room for them. Each of its parts sees what a block in
// its place would see. This is training's block-causal mask, but without the cost of a mask, since the keys
// of a part lie side by side.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kv_ring.h"

namespace tachy {

struct WanMask {
  std::vector<int64_t> parts;  // latent frames of each part; empty: no mask
  int64_t frames = 0;          // how many frames a part sees, including its own; 0: all before it
  int64_t sinks = 0;           // how many of these are the clip's first ones, in self-attention
};

// Frames [first, end) of the current block see slots [from, until) of a ring. If some slots before `from` are
// out of sight, self-attention sees slots [0, sinks) in place of the first `sinks` slots from `from` on.
struct WanPart {
  int64_t first, end, from, until, sinks = 0;
  Tensor seen(const Tensor& t) const { return t.slice(0, from, until); }
};

// Calls attend(part, keys, values) for each part of a block of `frames` frames that ends before frame `end`;
// without parts the block is one part. Keys and values [frames, tokens, channels] are all that the ring has.
template <class Attend>
void attend_parts(std::span<const WanPart> parts, int64_t frames, const runtime::KvRing& ring, int64_t layer,
                  int64_t end, Attend&& attend) {
  const Tensor k = ring.keys(layer, end), v = ring.values(layer, end);
  const WanPart whole{0, frames, 0, k.dim(0)};
  for (const WanPart& p : parts.empty() ? std::span(&whole, 1) : parts) attend(p, k, v);
}

}  // namespace tachy
