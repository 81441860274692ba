// The common code of files with CUDA calls: error checks that name the call, and the one launch helper.
#pragma once

#include <cuda_runtime.h>

#include "base/error.h"
#include "cuda/gpu.h"
#include "tensor/stream.h"

namespace tachy::cuda {

// Throws `device` (or `out_of_memory`) with the call's name and CUDA's own words.
void check_cuda(cudaError_t status, const char* what);

inline cudaStream_t stream_of(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.gpu->stream());
}

struct LaunchShape {
  dim3 grid, block;
  size_t shared_bytes = 0;
  unsigned cluster = 1;      // blocks of a cluster, along x
  bool cooperative = false;  // all blocks run at once and may wait for each other
  bool overlapping = false;  // loaded before the previous kernel has ended, and waits for that (overlap.h)
};

// Queues kernel<<<shape>>>(args…) on the stream. `name` appears in the error. It also permits kernels to have
// more than 48 KiB of dynamic shared memory.
template <class... Params, class... Args>
void launch(const char* name, void (*kernel)(Params...), const LaunchShape& shape, const Stream& stream,
            Args&&... args) {
  if (shape.shared_bytes > 48 * 1024)
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shape.shared_bytes)),
               name);
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid, config.blockDim = shape.block, config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream_of(stream);
  cudaLaunchAttribute attributes[3];
  config.attrs = attributes;
  if (shape.cluster > 1) {
    cudaLaunchAttribute& a = attributes[config.numAttrs++];
    a.id = cudaLaunchAttributeClusterDimension;
    a.val.clusterDim.x = shape.cluster, a.val.clusterDim.y = a.val.clusterDim.z = 1;
  }
  if (shape.cooperative) {
    cudaLaunchAttribute& a = attributes[config.numAttrs++];
    a.id = cudaLaunchAttributeCooperative, a.val.cooperative = 1;
  }
  if (shape.overlapping) {
    cudaLaunchAttribute& a = attributes[config.numAttrs++];
    a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    a.val.programmaticStreamSerializationAllowed = 1;
  }
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), name);
}

}  // namespace tachy::cuda
