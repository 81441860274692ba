#include "ops/glu/glu_impl.h"
#include "ops/op_helpers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/glu/glu_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"
#include "ops/activation_simd.h"
HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

void glu_rows(const GluArgs& args, int64_t begin, int64_t end) {
  with_activation(args.kind, [&]<Activation K>() HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      const float *a = row_ptr(args.a, i), *b = row_ptr(args.b, i);
      float* y = static_cast<float*>(args.y.data) + i * args.y.strides[0];
      simd::for_lanes(args.a.dims[1], [&](auto d, int64_t j) HWY_ATTR {
        hn::StoreU(hn::Mul(activate<K>(d, hn::LoadU(d, a + j)), hn::LoadU(d, b + j)), d, y + j);
      });
    }
  });
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(glu_rows);

void glu_cpu(const GluArgs& args, Stream& stream) {
  parallel_ranges(stream, args.a.dim(0), rows_per_tile(args.a.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(glu_rows)(args, begin, end);
  });
}

}  // namespace tachy::ops
#endif
