#include "nn/norm.h"

#include "ops/gated_residual/gated_residual.h"
#include "ops/layernorm_modulate/layernorm_modulate.h"
#include "ops/rmsnorm/rmsnorm.h"

namespace tachy::nn {

Norm Norm::rms(const Scope& scope, ParamStore& store, int64_t channels, float eps) {
  return {.kind = ops::NormKind::rms,
          .weight = store.widened(scope.tensor("weight", {channels})),
          .bias = {},
          .eps = eps};
}

Norm Norm::layer(const Scope& scope, ParamStore& store, int64_t channels, float eps) {
  return {.kind = ops::NormKind::layer,
          .weight = store.widened(scope.tensor("weight", {channels})),
          .bias = store.widened(scope.tensor("bias", {channels})),
          .eps = eps};
}

void Norm::operator()(const Tensor& x, const Tensor& y, Stream& stream) const {
  if (kind == ops::NormKind::rms)
    ops::rmsnorm({.x = x, .weight = weight, .eps = eps, .y = y}, stream);
  else
    ops::layernorm_modulate({.x = x, .weight = weight, .bias = bias, .eps = eps, .y = y}, stream);
}

void add_norm(const ops::AddNormArgs& a, Stream& stream) {
  if (!stream.without.has(Optimisation::fused_norms)) return ops::add_norm(a, stream);
  check(a.kind == ops::NormKind::layer && a.sum.defined(), ErrorCode::internal,
        "add_norm: only a layer norm whose sum is stored can be two passes");
  ops::gated_residual({.x = a.x, .u = a.u, .gate = a.gate, .row = a.row, .y = a.sum}, stream);
  ops::layernorm_modulate({.x = a.sum,
                           .weight = a.weight,
                           .bias = a.bias,
                           .scale = a.scale,
                           .shift = a.shift,
                           .row = a.row,
                           .eps = a.eps,
                           .y = a.y},
                          stream);
}

}  // namespace tachy::nn
