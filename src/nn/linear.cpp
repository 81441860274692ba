#include "nn/linear.h"

namespace tachy::nn {

void Linear::place(const Tensor& source, ParamStore& store) {
  if (store.on_gpu()) {
    weight = store.allocate(store.stream().activation, source.shape());
    return store.fill(weight, source);
  }
  weight = source;
  packed = store.packed(source);
}

void Linear::place_bias(const Tensor& source, ParamStore& store) {
  bias = store.widened(source);
  if (!store.on_gpu() || store.stream().activation == DType::f32) return;
  low_bias = store.allocate(store.stream().activation, source.shape());
  store.fill(low_bias, source);
}

Linear::Linear(const Scope& scope, ParamStore& store, int64_t in, int64_t out, bool has_bias) {
  place(scope.tensor("weight", {out, in}), store);
  if (has_bias) place_bias(scope.tensor("bias", {out}), store);
}

Linear Linear::from_kernel(const Scope& scope, ParamStore& store, std::initializer_list<int64_t> dims) {
  Linear out;
  out.place(scope.tensor("weight", dims).view({*dims.begin(), -1}), store);
  out.place_bias(scope.tensor("bias", {*dims.begin()}), store);
  return out;
}

Linear Linear::joined(std::span<const Scope> scopes, ParamStore& store, int64_t in, int64_t out_each) {
  check(store.on_gpu(), ErrorCode::internal, "linear: layers are joined on a GPU only");
  const auto count = static_cast<int64_t>(scopes.size());
  const DType low = store.stream().activation;
  Linear out;
  out.weight = store.allocate(low, {count * out_each, in});
  out.bias = store.allocate(DType::f32, {count * out_each});
  if (low != DType::f32) out.low_bias = store.allocate(low, {count * out_each});
  for (int64_t i = 0; i < count; ++i) {
    const auto part = [&](const Tensor& t) { return t.slice(0, i * out_each, (i + 1) * out_each); };
    const Scope& scope = scopes[static_cast<size_t>(i)];
    store.fill(part(out.weight), scope.tensor("weight", {out_each, in}));
    const Tensor bias = scope.tensor("bias", {out_each});
    store.fill(part(out.bias), bias);
    if (out.low_bias.defined()) store.fill(part(out.low_bias), bias);
  }
  return out;
}

Linear Linear::from_host(const Tensor& weight, const Tensor& bias, ParamStore& store) {
  Linear out;
  if (store.on_gpu()) {
    out.place(weight, store);
    out.place_bias(bias, store);
    return out;
  }
  out.weight = store.allocate(DType::f32, weight.shape());
  store.fill(out.weight, weight);
  out.bias = store.allocate(DType::f32, bias.shape());
  store.fill(out.bias, bias);
  return out;
}

void Linear::operator()(const Tensor& x, const Tensor& y, Stream& stream, const Epilogue& epilogue) const {
  ops::gemm({.x = x,
             .weight = weight,
             .packed = packed,
             .bias = y.dtype == DType::f32 ? bias : low_bias,
             .act = epilogue.act,
             .multiply = epilogue.multiply,
             .gate = epilogue.gate,
             .row = epilogue.row,
             .residual = epilogue.residual,
             .y = y},
            stream);
}

}  // namespace tachy::nn
