#include "ops/layernorm_modulate/layernorm_modulate_impl.h"
#include "ops/op_helpers.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/layernorm_modulate/layernorm_modulate_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"
#include "ops/norm_rows_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {

void layernorm_modulate_rows(const LayerNormModulateArgs& a, int64_t begin, int64_t end) {
  norm_rows<true>({a.x, a.weight, a.bias, a.scale, a.shift, a.row, a.eps, a.y}, begin, end);
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(layernorm_modulate_rows);

void layernorm_modulate_cpu(const LayerNormModulateArgs& args, Stream& stream) {
  parallel_ranges(stream, args.x.dim(0), rows_per_tile(args.x.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(layernorm_modulate_rows)(args, begin, end);
  });
}

}  // namespace tachy::ops
#endif
