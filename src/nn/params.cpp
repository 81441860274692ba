#include "nn/params.h"

#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "ops/gemm/gemm.h"
#include "tensor/transfer.h"

namespace tachy::nn {
namespace {

// A file's tensor is converted on the host in pieces of this many values, then uploaded.
constexpr int64_t kPieceValues = int64_t{4} << 20;

template <class T, T (*Round)(float)>
void narrow(const float* from, int64_t count, void* to, ThreadPool& pool) {
  constexpr int64_t kStep = 1 << 16;
  auto* out = static_cast<T*>(to);
  pool.run((count + kStep - 1) / kStep, [&](int64_t tile, int) {
    for (int64_t i = tile * kStep, end = std::min(count, i + kStep); i < end; ++i) out[i] = Round(from[i]);
  });
}

// [begin, begin + count) of a contiguous tensor.
Tensor flat(const Tensor& t, int64_t begin, int64_t count) {
  return Tensor(static_cast<char*>(t.data) + begin * dtype_size(t.dtype), t.dtype, {count}, t.device);
}

}  // namespace

Tensor ParamStore::allocate(DType dtype, std::span<const int64_t> dims) {
  const Tensor shape(nullptr, dtype, dims, Device::null);
  const auto size = static_cast<size_t>(shape.bytes());
  bytes_ += align_up(size ? size : 1);
  if (options_.plan_only) return shape;
  return buffers_.emplace_back(size, stream_.memory).tensor(dtype, dims);
}

void ParamStore::fill(const Tensor& to, const Tensor& source) {
  check(to.numel() == source.numel() && to.contiguous() && source.contiguous(), ErrorCode::internal,
        "params: {} into {}", shape_string(source), shape_string(to));
  if (options_.plan_only) return;
  if (!on_gpu() && to.dtype == DType::f32) return ops::widen(source.view({-1}), to.view({-1}), stream_);
  if (to.dtype == source.dtype) return upload(source.data, to, stream_);
  Arena none(0);
  Stream host{.arena = &none, .pool = stream_.pool};
  const int64_t count = to.numel(), piece = std::min(count, kPieceValues);
  const Buffer wide(static_cast<size_t>(piece) * 4), narrowed(static_cast<size_t>(piece) * 2);
  for (int64_t begin = 0; begin < count; begin += piece) {
    const int64_t n = std::min(piece, count - begin);
    const Tensor values = wide.tensor(DType::f32, {n});
    ops::widen(flat(source, begin, n), values, host);
    const void* ready = wide.data();
    if (to.dtype == DType::bf16) narrow<bf16_t, to_bf16>(values.as<float>(), n, narrowed.data(), *host.pool);
    if (to.dtype == DType::f16) narrow<f16_t, to_f16>(values.as<float>(), n, narrowed.data(), *host.pool);
    if (to.dtype != DType::f32) ready = narrowed.data();
    upload(ready, flat(to, begin, n), stream_);
  }
}

Tensor ParamStore::widened(const Tensor& source) {
  const Tensor out = allocate(DType::f32, source.shape());
  fill(out, source);
  return out;
}

Tensor ParamStore::uploaded(const void* host, DType dtype, std::initializer_list<int64_t> dims) {
  const Tensor out = allocate(dtype, dims);
  upload(host, out, stream_);
  return out;
}

Tensor ParamStore::packed(const Tensor& weight) {
  if (!options_.pack_weights) return {};
  const Tensor out =
      allocate(DType::u8, {ops::packed_gemm_bytes(weight.dim(0), weight.dim(1), stream_.compute)});
  ops::pack_gemm_weight(weight, out, stream_);
  return out;
}

std::shared_ptr<const void> ParamStore::keep() {
  return std::make_shared<std::vector<Buffer>>(std::move(buffers_));
}

}  // namespace tachy::nn
