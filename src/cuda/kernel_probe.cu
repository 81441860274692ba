// Whether this build's kernels run on the current GPU: asks for one of them that does nothing.
#include <cuda_runtime.h>

namespace tachy::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

cudaError_t kernel_status() {
  cudaFuncAttributes attributes;
  const cudaError_t status = cudaFuncGetAttributes(&attributes, nothing);
  cudaGetLastError();  // a refusal must not taint the next check
  return status;
}

}  // namespace tachy::cuda
