#include "nn/linear.h"

namespace tachy::nn {

Linear::Linear(const Scope& scope, ParamStore& store, int64_t in, int64_t out, bool has_bias)
    : weight(scope.tensor("weight", {out, in})), packed(store.packed(weight)) {
  if (has_bias) bias = store.widened(scope.tensor("bias", {out}));
}

Linear Linear::from_kernel(const Scope& scope, ParamStore& store, std::initializer_list<int64_t> dims) {
  Linear out;
  out.weight = scope.tensor("weight", dims).view({*dims.begin(), -1});
  out.packed = store.packed(out.weight);
  out.bias = store.widened(scope.tensor("bias", {*dims.begin()}));
  return out;
}

void Linear::operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue) const {
  ops::gemm({.x = x,
             .weight = weight,
             .packed = packed,
             .bias = bias,
             .act = epilogue.act,
             .multiply = epilogue.multiply,
             .gate = epilogue.gate,
             .row = epilogue.row,
             .residual = epilogue.residual,
             .y = y},
            stream);
}

}  // namespace tachy::nn
