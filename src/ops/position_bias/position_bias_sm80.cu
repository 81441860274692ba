// One thread a value; the table (a few KB) stays in the cache, the result is written once.
#include "cuda/dispatch.h"
#include "ops/position_bias/position_bias.h"

namespace tachy::ops {
namespace {

__global__ void position_bias_kernel(const float* table, const int32_t* bucket, float* y, int64_t heads,
                                     int64_t length, int64_t count) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  const int64_t key = i % length, query = i / length % length, head = i / (length * length);
  y[i] = table[bucket[key - query + length - 1] * heads + head];
}

}  // namespace

void position_bias_cuda(const PositionBiasArgs& a, Stream& stream) {
  const int64_t count = a.y.numel();
  if (count == 0) return;
  cuda::launch("position_bias", position_bias_kernel, {dim3(cuda::blocks_for(count, 256)), dim3(256)}, stream,
               static_cast<const float*>(a.table.data), static_cast<const int32_t*>(a.bucket.data),
               static_cast<float*>(a.y.data), a.y.dims[0], a.y.dims[1], count);
}

}  // namespace tachy::ops
