// Says to which frames' keys the frames of a block attend. A block that is made alone is one part, which sees
// everything in its rings. A whole clip can also be a single block with all its frames, in rings that have
// room for them. Each of its parts then sees what a block in its place would see, so one pass has the results
// of making the clip block by block. This is the block-causal mask of training, but it costs nothing, since
// the keys of a part are adjacent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kv_ring.h"

namespace tachy {

struct WanMask {
  std::vector<int64_t> parts;  // latent frames of each part; if empty, there is no mask
  int64_t frames = 0;          // how many frames a part sees, including its own; 0 means all before it, too
  int64_t sinks = 0;           // how many of these are the first ones of the clip, in self-attention
};

// Frames [first, end) of the current block see slots [from, until) of a ring. If some slots before `from` are
// hidden, self-attention sees slots [0, sinks) instead of the first `sinks` slots from `from` on.
struct WanPart {
  int64_t first, end, from, until, sinks = 0;
  Tensor seen(const Tensor& t) const { return t.slice(0, from, until); }
};

// Calls attend(part, keys, values) for each part of a block of `frames` frames that ends before frame `end`.
// Without parts, the block is one part. Keys and values [frames, tokens, channels] are the whole ring's.
template <class Attend>
void attend_parts(std::span<const WanPart> parts, int64_t frames, const runtime::KvRing& ring, int64_t layer,
                  int64_t end, Attend&& attend) {
  const Tensor k = ring.keys(layer, end), v = ring.values(layer, end);
  const WanPart whole{0, frames, 0, k.dim(0)};
  for (const WanPart& p : parts.empty() ? std::span(&whole, 1) : parts) attend(p, k, v);
}

}  // namespace tachy
