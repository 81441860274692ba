#include "ops/activation/activation_impl.h"
#include "ops/op_helpers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/activation/activation_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"
#include "ops/activation_simd.h"
HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

void activation_rows(const ActivationArgs& a, int64_t begin, int64_t end) {
  const float* x = static_cast<const float*>(a.x.data) + begin;
  float* y = static_cast<float*>(a.y.data) + begin;
  with_activation(a.kind, [&]<Activation K>() HWY_ATTR {
    simd::for_lanes(end - begin, [&](auto d, int64_t j)
                                     HWY_ATTR { hn::StoreU(activate<K>(d, hn::LoadU(d, x + j)), d, y + j); });
  });
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(activation_rows);

void activation_cpu(const ActivationArgs& args, Stream& stream) {
  parallel_ranges(stream, args.x.numel(), 16384, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(activation_rows)(args, begin, end);
  });
}

}  // namespace tachy::ops
#endif
