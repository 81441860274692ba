// Finds out whether this build's kernels run on the current GPU, by asking for one that does nothing.
#include <cuda_runtime.h>

namespace tachy::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

cudaError_t kernel_status() {
  cudaFuncAttributes attributes;
  const cudaError_t status = cudaFuncGetAttributes(&attributes, nothing);
  cudaGetLastError();  // this failure must not spoil the next check
  return status;
}

}  // namespace tachy::cuda
