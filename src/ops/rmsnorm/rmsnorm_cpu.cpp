// One pass for the mean square, one that writes; a row stays in the first-level cache between them.
#include <cmath>

#include "ops/op_helpers.h"
#include "ops/rmsnorm/rmsnorm_impl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rmsnorm/rmsnorm_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

void rmsnorm_rows(const RmsNormArgs& a, int64_t begin, int64_t end) {
  const int64_t c = a.x.dims[1];
  const float* w = row_ptr(a.weight, 0);
  const auto* row = a.row.defined() && a.scale.defined() ? static_cast<const int32_t*>(a.row.data) : nullptr;
  const bool past = past_caches(a.x, a.y, c);
  simd::RowWriter writer(past, c);
  for (int64_t i = begin; i < end; ++i) {
    const float* x = row_ptr(a.x, i);
    const float *scale = row_ptr(a.scale, row ? row[i] : 0), *shift = row_ptr(a.shift, row ? row[i] : 0);
    float* const out = static_cast<float*>(a.y.data) + i * a.y.strides[0];
    float* const y = writer.begin(out);
    const float r = 1.0f / std::sqrt(simd::sum_squares(x, c) / static_cast<float>(c) + a.eps);
    const float* next = row_ptr(a.x, std::min(i + 1, end - 1));  // comes while this row is walked from cache
    simd::for_lanes(c, [&](auto d, int64_t j) HWY_ATTR {
      if (past) __builtin_prefetch(next + j, 0, 2);
      auto n = hn::Mul(hn::LoadU(d, x + j), hn::Set(d, r));
      if (w) n = hn::Mul(n, hn::LoadU(d, w + j));
      if (scale)
        n = hn::MulAdd(n, hn::Add(hn::Set(d, 1.0f), hn::LoadU(d, scale + j)), hn::LoadU(d, shift + j));
      hn::StoreU(n, d, y + j);
    });
    writer.end(out);
  }
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(rmsnorm_rows);

void rmsnorm_cpu(const RmsNormArgs& args, Stream& stream) {
  parallel_ranges(stream, args.x.dim(0), rows_per_tile(args.x.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(rmsnorm_rows)(args, begin, end);
  });
}

}  // namespace tachy::ops
#endif
