#include "ops/op_helpers.h"
#include "ops/rope/rope_impl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope/rope_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rotate.h"
#include "cpu/simd_rows.h"
HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

HWY_INLINE void rotate_halves(const float* x, const float* cos, const float* sin, int64_t pairs, float* y) {
  simd::for_lanes(pairs, [&](auto d, int64_t p) HWY_ATTR {
    const auto a = hn::LoadU(d, x + p), b = hn::LoadU(d, x + pairs + p);
    const auto c = hn::LoadU(d, cos + p), s = hn::LoadU(d, sin + p);
    hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, y + p);
    hn::StoreU(hn::Add(hn::Mul(a, s), hn::Mul(b, c)), d, y + pairs + p);
  });
}

void rope_rows(const RopeArgs& a, int64_t begin, int64_t end) {
  const int64_t length = a.x.dims[1], heads = a.x.dims[2], pairs = a.x.dims[3] / 2;
  // A token's heads are written as one row if they lie side by side.
  simd::RowWriter writer(past_caches(a.x, a.y, heads * pairs * 2), heads * pairs * 2);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t b = i / length, l = i % length;
    const float* x = static_cast<const float*>(a.x.data) + b * a.x.strides[0] + l * a.x.strides[1];
    float* const out = static_cast<float*>(a.y.data) + b * a.y.strides[0] + l * a.y.strides[1];
    float* const y = writer.begin(out);
    for (int64_t h = 0; h < heads; ++h)
      if (a.pairs == RopePairs::halves)
        rotate_halves(x + h * a.x.strides[2], row_ptr(a.cos, l), row_ptr(a.sin, l), pairs,
                      y + h * a.y.strides[2]);
      else
        simd::rotate_pairs(x + h * a.x.strides[2], 1.0f, nullptr, row_ptr(a.cos, l), row_ptr(a.sin, l), pairs,
                           y + h * a.y.strides[2]);
    writer.end(out);
  }
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(rope_rows);

void rope_cpu(const RopeArgs& args, Stream& stream) {
  parallel_ranges(stream, args.x.dim(0) * args.x.dim(1), rows_per_tile(args.x.dim(2) * args.x.dim(3)),
                  [&](int64_t begin, int64_t end, int) {
                    HWY_DYNAMIC_DISPATCH(rope_rows)(args, begin, end);
                  });
}

}  // namespace tachy::ops
#endif
