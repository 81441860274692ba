// The epilogue of a linear layer on one row of a tile that is still in cache: act(t + bias)·multiply, then
// the gate and the residual. There is one source for all instruction sets (Highway), and the activation is
// chosen outside the loop.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/gemm/gemm_epilogue.cpp"
#include <hwy/foreach_target.h>
// The order matters: highway.h sees the target that foreach_target.h set.
#include <hwy/highway.h>

#include "cpu/simd_math.h"
#include "cpu/simd_rows.h"
#include "ops/gemm/gemm_impl.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace math = tachy::cpu::HWY_NAMESPACE;

template <class Act>
void row_with(const EpilogueRow& r, Act&& act) {
  math::for_lanes(r.count, [&](auto d, int64_t i) HWY_ATTR {
    auto v = hn::LoadU(d, r.t + i);
    if (r.bias) v = hn::Add(v, hn::LoadU(d, r.bias + i));
    v = act(d, v);
    if (r.multiply) v = hn::Mul(v, hn::LoadU(d, r.multiply + i));
    if (r.gate) v = hn::Mul(v, hn::LoadU(d, r.gate + i));
    if (r.residual) v = hn::Add(v, hn::LoadU(d, r.residual + i));
    hn::StoreU(v, d, r.y + i);
  });
}

void epilogue_row(const EpilogueRow& r) {
  switch (r.act) {
    case Activation::none:
      return row_with(r, [](auto, auto v) HWY_ATTR { return v; });
    case Activation::silu:
      return row_with(r, [](auto d, auto v) HWY_ATTR { return math::silu(d, v); });
    case Activation::gelu_tanh:
      return row_with(r, [](auto d, auto v) HWY_ATTR { return math::gelu_tanh(d, v); });
    case Activation::gelu_erf:
      return row_with(r, [](auto d, auto v) HWY_ATTR { return math::gelu_erf(d, v); });
    case Activation::mish:
      return row_with(r, [](auto d, auto v) HWY_ATTR { return math::mish(d, v); });
  }
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {
HWY_EXPORT(epilogue_row);
void run_epilogue_row(const EpilogueRow& row) { HWY_DYNAMIC_DISPATCH(epilogue_row)(row); }
}  // namespace tachy::ops
#endif
