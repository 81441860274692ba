// A block takes one head and some queries. The head's 2L − 1 values are in shared memory, and each query's
// row is a window of them.
#include "cuda/dispatch.h"
#include "ops/position_bias/position_bias.h"

namespace tachy::ops {
namespace {

constexpr int kQueries = 16;

__global__ void __launch_bounds__(256)
    position_bias_kernel(const float* table, const int32_t* bucket, float* y, int heads, int length) {
  // `window` holds the values from distance 1 − L − first … on, and only those that this block reads.
  extern __shared__ float window[];
  const int head = blockIdx.y, first = blockIdx.x * kQueries;
  const int queries = min(kQueries, length - first), base = length - first - queries,
            count = length + queries - 1;
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    window[i] = table[static_cast<int64_t>(bucket[base + i]) * heads + head];
  __syncthreads();
  float* out = y + (static_cast<int64_t>(head) * length + first) * length;
  for (int q = 0; q < queries; ++q)
    for (int j = threadIdx.x; j < length; j += blockDim.x)
      out[static_cast<int64_t>(q) * length + j] = window[queries - 1 - q + j];
}

}  // namespace

void position_bias_cuda(const PositionBiasArgs& a, Stream& stream) {
  const auto heads = static_cast<int>(a.table.dims[1]), length = static_cast<int>(a.y.dims[1]);
  if (heads == 0) return;
  const size_t shared = static_cast<size_t>(length + kQueries) * 4;
  require(shared <= stream.gpu->info().shared_bytes, "position_bias: expected at most {} positions, got {}",
          stream.gpu->info().shared_bytes / 4 - kQueries, length);
  cuda::launch("position_bias", position_bias_kernel,
               {dim3(cuda::blocks_for(length, kQueries), static_cast<unsigned>(heads)), 256, shared}, stream,
               static_cast<const float*>(a.table.data), static_cast<const int32_t*>(a.bucket.data),
               static_cast<float*>(a.y.data), heads, length);
}

}  // namespace tachy::ops
