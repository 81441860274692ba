// Posteriors are a few MB, so there is one thread per value, and each tensor has its own dtype.
#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "ops/reparameterize/reparameterize.h"
#include "ops/reparameterize/reparameterize_backward.h"

namespace tachy::ops {
namespace {

using namespace device;

struct Matrix {
  void* data;
  int64_t stride;
  int bytes;
  bool half;  // f16, not bf16

  explicit Matrix(const Tensor& t)
      : data(t.data), stride(t.strides[0]), bytes(dtype_size(t.dtype)), half(t.dtype == DType::f16) {}
  __device__ float get(int64_t i, int64_t j) const {
    const int64_t at = i * stride + j;
    if (bytes == 4) return static_cast<const float*>(data)[at];
    return half ? as_float(static_cast<const f16*>(data)[at]) : as_float(static_cast<const bf16*>(data)[at]);
  }
  __device__ void set(int64_t i, int64_t j, float v) const {
    const int64_t at = i * stride + j;
    if (bytes == 4)
      static_cast<float*>(data)[at] = v;
    else if (half)
      static_cast<f16*>(data)[at] = from_float<f16>(v);
    else
      static_cast<bf16*>(data)[at] = from_float<bf16>(v);
  }
};

__global__ void __launch_bounds__(256)
    reparameterize_kernel(const Matrix mean, const Matrix logvar, const Matrix noise, const Matrix z,
                          const float* center, const float* factor, int64_t m, int64_t p) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= m * p) return;
  const int64_t i = at / p, j = at % p;
  float v = logvar.get(i, j);  // written so that NaN stays NaN
  if (v < kLowestLogvar) v = kLowestLogvar;
  if (v > kHighestLogvar) v = kHighestLogvar;
  float draw = fmaf(expf(0.5f * v), noise.get(i, j), mean.get(i, j));
  if (center) draw = (draw - center[i]) * factor[i];
  z.set(i, j, draw);
}

__global__ void __launch_bounds__(256)
    reparameterize_backward_kernel(const Matrix logvar, const Matrix noise, const Matrix dz,
                                   const Matrix dmean, const Matrix dlogvar, const float* factor, int64_t m,
                                   int64_t p) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= m * p) return;
  const int64_t i = at / p, j = at % p;
  const float v = logvar.get(i, j), g = dz.get(i, j) * (factor ? factor[i] : 1.0f);
  const bool clamped = v < kLowestLogvar || v > kHighestLogvar;
  dmean.set(i, j, g);
  dlogvar.set(i, j, clamped ? 0.0f : g * noise.get(i, j) * 0.5f * expf(0.5f * v));
}

}  // namespace

void reparameterize_cuda(const ReparameterizeArgs& a, Stream& stream) {
  const int64_t m = a.mean.dims[0], p = a.mean.dims[1];
  if (m * p == 0) return;
  const bool normalised = a.center.defined();
  cuda::launch("reparameterize", reparameterize_kernel, {cuda::blocks_for(m * p, 256), 256}, stream,
               Matrix(a.mean), Matrix(a.logvar), Matrix(a.noise), Matrix(a.z),
               normalised ? static_cast<const float*>(a.center.data) : nullptr,
               normalised ? static_cast<const float*>(a.factor.data) : nullptr, m, p);
}

void reparameterize_backward_cuda(const ReparameterizeBackwardArgs& a, Stream& stream) {
  const int64_t m = a.logvar.dims[0], p = a.logvar.dims[1];
  if (m * p == 0) return;
  cuda::launch("reparameterize_backward", reparameterize_backward_kernel, {cuda::blocks_for(m * p, 256), 256},
               stream, Matrix(a.logvar), Matrix(a.noise), Matrix(a.dz), Matrix(a.dmean), Matrix(a.dlogvar),
               a.factor.defined() ? static_cast<const float*>(a.factor.data) : nullptr, m, p);
}

}  // namespace tachy::ops
