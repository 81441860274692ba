// Softmax of a band of score rows [rows, Lk] f32 (already scaled; biases and the causal mask are
// applied here) into weights of the activations' dtype. There is one block per row; its second
// read comes from the cache.
#include "cuda/dispatch.h"
#include "device/reduce.cuh"
#include "ops/attention/attention_cuda.h"

namespace tachy::ops {
namespace {

using device::from_float;

constexpr int kThreads = 256, kWarps = kThreads / 32;

struct Band {
  const float* scores;
  void* weights;
  int64_t stride;
  const float *key_bias = nullptr, *bias = nullptr;
  int64_t bias_row = 0;
  float* lse = nullptr;
  int64_t first = 0, offset = 0;
  int keys = 0;
  bool causal = false;
};

// Combines (m, Σ exp(x − m)) pairs over the block into the largest m and the sum.
__device__ __forceinline__ void combine(float& most, float& sum, float other_most, float other_sum) {
  const float high = fmaxf(most, other_most);
  if (high == -INFINITY) return;
  sum = sum * expf(most - high) + other_sum * expf(other_most - high);
  most = high;
}

template <class T, bool kPlain>
__global__ void __launch_bounds__(kThreads) softmax_kernel(const Band p) {
  __shared__ float shared[2][kWarps];
  const int64_t row = blockIdx.x, i = p.first + row;
  const float* scores = p.scores + row * p.stride;
  const float* bias = !kPlain && p.bias ? p.bias + row * p.bias_row : nullptr;
  const int seen =
      p.causal ? static_cast<int>(max(int64_t{0}, min(int64_t{p.keys}, i + p.offset + 1))) : p.keys;
  const auto score = [&](int j) {
    float s = scores[j];
    if (!kPlain && p.key_bias) s += p.key_bias[j];
    if (!kPlain && bias) s += bias[j];
    return s;
  };
  float most = -INFINITY, sum = 0;
  if (kPlain) {  // four at a time, since rows begin at multiples of 16 bytes
    for (int j = threadIdx.x * 4; j < seen; j += kThreads * 4) {
      const float4 four = *reinterpret_cast<const float4*>(scores + j);
      float v[4] = {four.x, four.y, four.z, four.w}, high = most;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (j + c >= seen) v[c] = -INFINITY;
        high = fmaxf(high, v[c]);
      }
      if (high == -INFINITY) continue;
      sum *= expf(most - high), most = high;
#pragma unroll
      for (int c = 0; c < 4; ++c) sum += expf(v[c] - high);
    }
  } else {
    for (int j = threadIdx.x; j < seen; j += kThreads) combine(most, sum, score(j), 1);
  }
#pragma unroll
  for (int step = 16; step; step >>= 1)
    combine(most, sum, __shfl_xor_sync(0xffffffffu, most, step), __shfl_xor_sync(0xffffffffu, sum, step));
  if (threadIdx.x % 32 == 0) shared[0][threadIdx.x / 32] = most, shared[1][threadIdx.x / 32] = sum;
  __syncthreads();
  most = shared[0][0], sum = shared[1][0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) combine(most, sum, shared[0][w], shared[1][w]);
  const bool none = most == -INFINITY;
  const float inverse = none ? 0.0f : 1.0f / sum;
  if (p.lse && threadIdx.x == 0) p.lse[row] = none ? -INFINITY : most + logf(sum);
  T* weights = static_cast<T*>(p.weights) + row * p.stride;
  for (int j = threadIdx.x; j < p.keys; j += kThreads)
    weights[j] = from_float<T>(j < seen && !none ? expf(score(j) - most) * inverse : 0.0f);
}

}  // namespace

void attention_softmax_cuda(const AttentionArgs& a, const AttentionBand& band, const Tensor& scores,
                            const Tensor& weights, Stream& stream) {
  Band p{.scores = static_cast<const float*>(scores.data),
         .weights = weights.data,
         .stride = scores.strides[0],
         .first = band.first,
         .offset = a.causal_offset,
         .keys = static_cast<int>(a.k.dims[1]),
         .causal = a.causal};
  if (a.key_bias.defined())
    p.key_bias = static_cast<const float*>(a.key_bias.data) + band.batch * a.key_bias.strides[0];
  if (a.bias.defined())
    p.bias = static_cast<const float*>(a.bias.data) + band.head * a.bias.strides[0] +
             band.first * a.bias.strides[1],
    p.bias_row = a.bias.strides[1];
  if (a.lse.defined())
    p.lse = static_cast<float*>(a.lse.data) + band.batch * a.lse.strides[0] + band.head * a.lse.strides[1] +
            band.first;
  const bool plain = !p.key_bias && !p.bias;
  const cuda::LaunchShape shape{dim3(static_cast<unsigned>(band.rows)), dim3(kThreads)};
  cuda::dispatch_float("attention", a.q.dtype, [&]<class T>() {
    cuda::launch("attention's softmax", plain ? softmax_kernel<T, true> : softmax_kernel<T, false>, shape,
                 stream, p);
  });
}

}  // namespace tachy::ops
