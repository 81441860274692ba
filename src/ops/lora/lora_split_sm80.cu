// Prepares the operands of lora's second product for cuBLASLt; both are small compared with x and y.
#include "cuda/dispatch.h"
#include "device/vec.cuh"
#include "ops/lora/lora_split.h"

namespace tachy::ops {
namespace {

template <class T>
__global__ void __launch_bounds__(256)
    split_kernel(const float* low, const float* scales, int rank, int width, int64_t count, T* pairs) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / width;
  const auto column = static_cast<int>(i - row * width);
  const float value = low[i] * (scales ? scales[column / rank] : 1.0f);
  const T high = static_cast<T>(value);
  T* to = pairs + row * 2 * width + column;
  to[0] = high, to[width] = static_cast<T>(value - static_cast<float>(high));
}

template <class T>
__global__ void __launch_bounds__(256) gather_kernel(const T* b, int64_t adapter_stride, int64_t row_stride,
                                                     int rank, int width, int64_t count, T* wide) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / width;
  const auto column = static_cast<int>(i - row * width);
  const T value = b[column / rank * adapter_stride + row * row_stride + column % rank];
  T* to = wide + row * 2 * width + column;
  to[0] = value, to[width] = value;
}

template <class Body>
void dispatch_low(DType dtype, Body&& body) {
  dtype == DType::bf16 ? body.template operator()<__nv_bfloat16>() : body.template operator()<__half>();
}

}  // namespace

void lora_split_cuda(const Tensor& low, const Tensor& scales, int64_t rank, const Tensor& pairs,
                     Stream& stream) {
  const int64_t count = low.numel();
  dispatch_low(pairs.dtype, [&]<class T>() {
    cuda::launch("lora", split_kernel<T>, {cuda::blocks_for(count, 256), 256}, stream,
                 static_cast<const float*>(low.data),
                 scales.defined() ? static_cast<const float*>(scales.data) : nullptr, static_cast<int>(rank),
                 static_cast<int>(low.dims[1]), count, static_cast<T*>(pairs.data));
  });
}

void lora_gather_cuda(const Tensor& b, const Tensor& wide, Stream& stream) {
  const int64_t width = wide.dims[1] / 2, count = wide.dims[0] * width;
  dispatch_low(wide.dtype, [&]<class T>() {
    cuda::launch("lora", gather_kernel<T>, {cuda::blocks_for(count, 256), 256}, stream,
                 static_cast<const T*>(b.data), b.strides[0], b.strides[1], static_cast<int>(b.dims[2]),
                 static_cast<int>(width), count, static_cast<T*>(wide.data));
  });
}

}  // namespace tachy::ops
