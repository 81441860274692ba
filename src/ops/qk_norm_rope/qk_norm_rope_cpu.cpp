// First the factor of the norm is computed from the whole row (or from one head, which then counts as a row).
// Then, head by head, the values are multiplied by it and by the weight, and their pairs are rotated. So x is
// read twice, the second time from cache.
#include <cmath>

#include "ops/op_helpers.h"
#include "ops/qk_norm_rope/qk_norm_rope_impl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/qk_norm_rope/qk_norm_rope_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rotate.h"
#include "cpu/simd_rows.h"
HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

void qk_norm_rope_rows(const QkNormRopeArgs& a, int64_t begin, int64_t end) {
  const int64_t norms = norms_of(a), length = a.x.dims[1], c = a.x.dims[2] / norms,
                head = a.x.dims[2] / a.heads;
  const float* w = row_ptr(a.weight, 0);
  simd::RowWriter writer(past_caches(a.x, a.y, c), c);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t b = i / norms / length, l = i / norms % length, first = i % norms * c;
    const float* x = static_cast<const float*>(a.x.data) + b * a.x.strides[0] + l * a.x.strides[1] + first;
    float* const out = static_cast<float*>(a.y.data) + b * a.y.strides[0] + l * a.y.strides[1] + first;
    float* const y = writer.begin(out);
    const float r = a.scale / std::sqrt(simd::sum_squares(x, c) / static_cast<float>(c) + a.eps);
    if (a.cos.defined()) {
      for (int64_t j = 0; j < c; j += head)
        simd::rotate_pairs(x + j, r, w ? w + j : nullptr, row_ptr(a.cos, l), row_ptr(a.sin, l), head / 2,
                           y + j);
      writer.end(out);
      continue;
    }
    simd::for_lanes(c, [&](auto d, int64_t j) HWY_ATTR {
      const auto n = hn::Mul(hn::LoadU(d, x + j), hn::Set(d, r));
      hn::StoreU(w ? hn::Mul(n, hn::LoadU(d, w + j)) : n, d, y + j);
    });
    writer.end(out);
  }
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(qk_norm_rope_rows);

void qk_norm_rope_cpu(const QkNormRopeArgs& args, Stream& stream) {
  if (args.x2.defined()) qk_norm_rope_cpu(second_of(args), stream);
  const int64_t norms = norms_of(args);
  parallel_ranges(stream, args.x.dim(0) * args.x.dim(1) * norms, rows_per_tile(args.x.dim(2) / norms),
                  [&](int64_t begin, int64_t end, int) {
                    HWY_DYNAMIC_DISPATCH(qk_norm_rope_rows)(args, begin, end);
                  });
}

}  // namespace tachy::ops
#endif
