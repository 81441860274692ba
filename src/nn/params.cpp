#include "nn/params.h"

#include "ops/elementwise/elementwise.h"
#include "ops/gemm/gemm.h"

namespace tachy::nn {

Tensor ParamStore::allocate(DType dtype, std::span<const int64_t> dims) {
  const Tensor shape(nullptr, dtype, dims, Device::null);
  const auto size = static_cast<size_t>(shape.bytes());
  bytes_ += align_up(size ? size : 1);
  if (options_.plan_only) return shape;
  return buffers_.emplace_back(size).tensor(dtype, dims);
}

Tensor ParamStore::widened(const Tensor& source) {
  const Tensor out = allocate(DType::f32, source.shape());
  if (!options_.plan_only) ops::widen(source, out, stream_);
  return out;
}

Tensor ParamStore::packed(const Tensor& weight) {
  if (!options_.pack_weights) return {};
  const Tensor out = allocate(DType::u8, {ops::packed_gemm_bytes(weight.dim(0), weight.dim(1), stream_.compute)});
  ops::pack_gemm_weight(weight, out, stream_);
  return out;
}

std::shared_ptr<const void> ParamStore::keep() {
  return std::make_shared<std::vector<Buffer>>(std::move(buffers_));
}

}  // namespace tachy::nn
