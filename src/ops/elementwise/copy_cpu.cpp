// Strided copy with a per-channel affine map. The axes are sorted by the strides of y, and neighbouring axes
// are merged if both tensors have them as one run. What remains is one of three cases:
//   rows        both innermost strides are 1: lines of vectors
//   transpose   y's innermost stride is 1, x's is 1 along another axis: 4x4 blocks transposed in registers,
//               in tiles of 64 x 64
//   general     anything else: one value at a time
#include <algorithm>
#include <numeric>

#include "ops/elementwise/elementwise_impl.h"
#include "ops/op_helpers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/copy_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"

#ifndef TACHY_OPS_COPY_CPU_ONCE
#define TACHY_OPS_COPY_CPU_ONCE
namespace tachy::ops {
namespace {

struct Axis {
  int64_t extent, from, to;  // strides of x and y
  bool channel;              // scale and shift run along it
};

// The axes after merging: `inner` (innermost of y), `across` (in the transpose case the axis on which x has
// stride 1, otherwise of extent 1) and the outer axes.
struct Walk {
  Axis inner{1, 1, 1, false}, across{1, 0, 0, false};
  Axis outer[kMaxDims];
  int outers = 0;
  const float *scale = nullptr, *shift = nullptr;
};

Walk plan_walk(const CopyArgs& a) {
  const bool affine = a.scale.defined() || a.shift.defined();
  Axis axes[kMaxDims];
  int n = 0;
  for (int i = 0; i < a.x.rank; ++i)
    if (a.x.dims[i] != 1)
      axes[n++] = {a.x.dims[i], a.x.strides[i], a.y.strides[i], affine && i == a.channel_axis};
  std::stable_sort(axes, axes + n, [](const Axis& p, const Axis& q) { return p.to > q.to; });
  int kept = 0;
  for (int i = 0; i < n; ++i) {
    Axis* last = kept ? &axes[kept - 1] : nullptr;
    const Axis& next = axes[i];
    const bool mergeable = last && !last->channel && !next.channel && last->from == next.from * next.extent &&
                           last->to == next.to * next.extent;
    if (mergeable)
      *last = {last->extent * next.extent, next.from, next.to, false};
    else
      axes[kept++] = next;
  }
  Walk walk;
  walk.scale = row_ptr(a.scale, 0), walk.shift = row_ptr(a.shift, 0);
  // A channel axis of extent 1 was dropped: its one scale and shift apply everywhere, which a zero-stride
  // axis expresses.
  if (kept) walk.inner = axes[--kept];
  int across = -1;
  if (walk.inner.from != 1)
    for (int i = 0; i < kept; ++i)
      if (axes[i].from == 1) across = i;
  for (int i = 0; i < kept; ++i) {
    if (i == across)
      walk.across = axes[i];
    else
      walk.outer[walk.outers++] = axes[i];
  }
  return walk;
}

}  // namespace
}  // namespace tachy::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

// Writes one line of y: `count` values from x + i·from, with channel c0 (+ i if the line runs along the
// channels).
HWY_INLINE void affine_line(float* y, int64_t count, const float* scale, const float* shift, int64_t c0,
                            bool along) {
  simd::for_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
    auto v = hn::LoadU(d, y + i);
    if (scale) v = hn::Mul(v, along ? hn::LoadU(d, scale + c0 + i) : hn::Set(d, scale[c0]));
    if (shift) v = hn::Add(v, along ? hn::LoadU(d, shift + c0 + i) : hn::Set(d, shift[c0]));
    hn::StoreU(v, d, y + i);
  });
}

// Copies the tile [j0, j1) of `across` x [i0, i1) of `inner`, with channel c0 if neither axis is the channel.
void copy_tile(const Walk& w, const float* x, float* y, int64_t j0, int64_t j1, int64_t i0, int64_t i1,
               int64_t c0) {
  const bool affine = w.scale || w.shift, blocks = w.inner.to == 1 && w.across.from == 1;
  int64_t j = j0;
  for (; blocks && j + 4 <= j1; j += 4) {
    int64_t i = i0;
    for (; i + 4 <= i1; i += 4)
      simd::transpose_4x4(x + i * w.inner.from + j, w.inner.from, y + i + j * w.across.to, w.across.to);
    for (; i < i1; ++i)
      for (int64_t k = j; k < j + 4; ++k) y[i + k * w.across.to] = x[i * w.inner.from + k];
  }
  for (; j < j1; ++j) {
    const float* from = x + j * w.across.from;
    float* to = y + j * w.across.to;
    if (w.inner.from == 1 && w.inner.to == 1) {
      simd::for_lanes(i1 - i0, [&](auto d, int64_t i)
                                   HWY_ATTR { hn::StoreU(hn::LoadU(d, from + i0 + i), d, to + i0 + i); });
    } else {
      for (int64_t i = i0; i < i1; ++i) to[i * w.inner.to] = from[i * w.inner.from];
    }
  }
  if (!affine) return;
  for (j = j0; j < j1; ++j) {  // the tile is still in the first-level cache
    float* to = y + j * w.across.to;
    const int64_t c = w.across.channel ? j : w.inner.channel ? i0 : c0;
    if (w.inner.to == 1) {
      affine_line(to + i0, i1 - i0, w.scale, w.shift, c, w.inner.channel);
      continue;
    }
    for (int64_t i = i0; i < i1; ++i) {
      const int64_t channel = w.inner.channel ? i : c;
      float v = to[i * w.inner.to];
      if (w.scale) v *= w.scale[channel];
      if (w.shift) v += w.shift[channel];
      to[i * w.inner.to] = v;
    }
  }
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(copy_tile);

void copy_cpu(const CopyArgs& a, Stream& stream) {
  if (a.x.numel() == 0) return;
  const Walk w = plan_walk(a);
  const float* x = a.x.as<float>();
  float* y = a.y.as<float>();
  const bool transpose = w.across.extent > 1;
  const int64_t tile_i = transpose ? 64 : 4096, tile_j = transpose ? 64 : 1;
  const int64_t tiles_i = (w.inner.extent + tile_i - 1) / tile_i,
                tiles_j = (w.across.extent + tile_j - 1) / tile_j;
  int64_t outer = 1;
  for (int k = 0; k < w.outers; ++k) outer *= w.outer[k].extent;
  const int64_t tile_values = std::min(tile_i, w.inner.extent) * std::min(tile_j, w.across.extent);
  parallel_ranges(stream, outer * tiles_j * tiles_i, rows_per_tile(tile_values),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t tile = begin; tile < end; ++tile) {
                      int64_t rest = tile / tiles_i / tiles_j, from = 0, to = 0, channel = 0;
                      for (int k = w.outers - 1; k >= 0; --k) {
                        const int64_t index = rest % w.outer[k].extent;
                        rest /= w.outer[k].extent;
                        from += index * w.outer[k].from, to += index * w.outer[k].to;
                        if (w.outer[k].channel) channel = index;
                      }
                      const int64_t i0 = tile % tiles_i * tile_i, j0 = tile / tiles_i % tiles_j * tile_j;
                      HWY_DYNAMIC_DISPATCH(copy_tile)
                      (w, x + from, y + to, j0, std::min(w.across.extent, j0 + tile_j), i0,
                       std::min(w.inner.extent, i0 + tile_i), channel);
                    }
                  });
}

}  // namespace tachy::ops
#endif
