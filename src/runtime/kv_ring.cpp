#include "runtime/kv_ring.h"

#include <algorithm>

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/rope/rope.h"

namespace tachy::runtime {

void RingSlots::expect_block(int64_t block) const {
  require(frames >= 1 && sinks >= 0 && sinks < frames,
          "key and value ring: expected at least one frame more than its sinks, got {} frames and {} sinks",
          frames, sinks);
  require(block >= 1 && block <= frames - sinks,
          "key and value ring: expected blocks of 1 to {} frames ({} frames, {} of them sinks), got {}",
          frames - sinks, frames, sinks, block);
}

std::optional<Tensor> KvRing::place(int64_t layer, int64_t first, int64_t count) const {
  const int64_t slot = slots.slot(first), tokens = k.dim(2);
  if (sinks_k.defined() && first < slots.sinks) return std::nullopt;
  for (int64_t i = 1; i < count; ++i)
    if (slots.slot(first + i) != slot + i) return std::nullopt;
  return k.select(0, layer).slice(0, slot, slot + count).view({count * tokens, k.dim(3)});
}

void KvRing::put(int64_t layer, int64_t first, const Tensor& from_k, const Tensor& from_v,
                 Stream& stream) const {
  const ProfileRange range(stream.hooks.profiler, "keep keys, values", ProfileKind::cache);
  const int64_t tokens = k.dim(2), count = from_v.dim(0) / tokens;
  const auto copy = [&](const Tensor& from, const Tensor& to, int64_t begin, int64_t n, int64_t slot) {
    const Tensor place = to.slice(0, slot, slot + n).view({n * tokens, to.dim(2)});
    ops::copy({.x = from.slice(0, begin * tokens, (begin + n) * tokens), .y = place}, stream);
  };
  for (int64_t i = 0; i < count;) {  // copies as many frames at a time as have adjacent slots
    const int64_t slot = slots.slot(first + i);
    int64_t n = 1;
    while (i + n < count && slots.slot(first + i + n) == slot + n) ++n;
    if (from_k.defined()) copy(from_k, k.select(0, layer), i, n, slot);
    copy(from_v, v.select(0, layer), i, n, slot);
    if (from_k.defined() && sinks_k.defined() && first + i < slots.sinks)
      copy(from_k, sinks_k.select(0, layer), i, std::min(n, slots.sinks - first - i), slot);
    i += n;
  }
}

void KvRing::turn_sinks(const Tensor& cos, const Tensor& sin, int64_t heads, Stream& stream) const {
  const ProfileRange range(stream.hooks.profiler, "turn sinks", ProfileKind::cache);
  const int64_t layers = k.dim(0), rows = slots.sinks * k.dim(2), width = k.dim(3) / heads;
  for (int64_t layer = 0; layer < layers; ++layer)
    ops::rope({.x = sinks_k.select(0, layer).view({1, rows, heads, width}),
               .cos = cos,
               .sin = sin,
               .y = k.select(0, layer).slice(0, 0, slots.sinks).view({1, rows, heads, width})},
              stream);
}

}  // namespace tachy::runtime
