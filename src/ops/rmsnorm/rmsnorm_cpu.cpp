#include "ops/op_helpers.h"
#include "ops/rmsnorm/rmsnorm_impl.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rmsnorm/rmsnorm_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"
#include "ops/norm_rows_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {

void rmsnorm_rows(const RmsNormArgs& a, int64_t begin, int64_t end) {
  norm_rows<false>({a.x, a.weight, Tensor(), a.scale, a.shift, a.row, a.eps, a.y}, begin, end);
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
