#include "ops/gated_residual/gated_residual_impl.h"
#include "ops/op_helpers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gated_residual/gated_residual_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

void gated_residual_rows(const GatedResidualArgs& a, int64_t begin, int64_t end) {
  const auto* row = a.row.defined() && a.gate.defined() ? static_cast<const int32_t*>(a.row.data) : nullptr;
  for (int64_t i = begin; i < end; ++i) {
    const float *x = row_ptr(a.x, i), *u = row_ptr(a.u, i), *gate = row_ptr(a.gate, row ? row[i] : 0);
    float* y = static_cast<float*>(a.y.data) + i * a.y.strides[0];
    simd::for_lanes(a.x.dims[1], [&](auto d, int64_t j) HWY_ATTR {
      const auto xv = hn::LoadU(d, x + j), uv = hn::LoadU(d, u + j);
      hn::StoreU(gate ? hn::MulAdd(hn::LoadU(d, gate + j), uv, xv) : hn::Add(xv, uv), d, y + j);
    });
  }
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(gated_residual_rows);

void gated_residual_cpu(const GatedResidualArgs& args, Stream& stream) {
  parallel_ranges(stream, args.x.dim(0), rows_per_tile(args.x.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(gated_residual_rows)(args, begin, end);
  });
}

}  // namespace tachy::ops
#endif
