// checksum_of on the device. Sums of 64-bit integers do not depend on the order of their additions.
#include "base/checksum.h"
#include "cuda/checksum.h"
#include "cuda/runtime.h"

namespace tachy::cuda {
namespace {

constexpr int kThreads = 256, kBlocks = 1024;

__global__ void __launch_bounds__(kThreads)
    checksum_kernel(const uint32_t* words, size_t count, uint32_t last, unsigned long long* sum) {
  unsigned long long mine = 0;
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < count; i += size_t{kThreads} * gridDim.x)
    mine += mixed_word(words[i], i);
  if (last && blockIdx.x == 0 && threadIdx.x == 0) {  // the last 1 to 3 bytes
    uint32_t word = 0;
    for (uint32_t i = 0; i < last; ++i)
      word |= uint32_t{reinterpret_cast<const unsigned char*>(words + count)[i]} << (8 * i);
    mine += mixed_word(word, count);
  }
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) mine += __shfl_xor_sync(0xffffffffu, mine, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

}  // namespace

void queue_checksum(const void* data, size_t bytes, void* sum, void* stream) {
  auto* queue = static_cast<cudaStream_t>(stream);
  check_cuda(cudaMemsetAsync(sum, 0, sizeof(uint64_t), queue), "checksum");
  if (bytes == 0) return;
  const size_t words = bytes / 4, blocks = (words + kThreads - 1) / kThreads;
  checksum_kernel<<<static_cast<unsigned>(blocks < 1         ? 1
                                          : blocks < kBlocks ? blocks
                                                             : kBlocks),
                    kThreads, 0, queue>>>(static_cast<const uint32_t*>(data), words,
                                          static_cast<uint32_t>(bytes % 4),
                                          static_cast<unsigned long long*>(sum));
  check_cuda(cudaGetLastError(), "checksum");
}

}  // namespace tachy::cuda
