#include "nn/norm.h"

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

}  // namespace tachy::nn
