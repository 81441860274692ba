// Launches that are brought in while the kernel before them ends (programmatic dependent launch, Hopper and
// later): the kernel begins with device::wait_for_previous_kernel (device/overlap.cuh), so what it reads and
// overwrites is as after any other launch. It saves 0.2 to 0.3 us of the 4 to 10 us of a short norm, 4 % of
// the small model's generation; results are the same bits. TACHY_CUDA_OVERLAP=0: plain launches.
#pragma once

#include <map>
#include <mutex>

#include "base/env.h"
#include "cuda/runtime.h"

namespace tachy::cuda {

// Whether the kernel waits: only code compiled for such a GPU does.
inline bool waits_for_previous(const void* kernel, const Stream& stream) {
  static const bool asked = env_string("TACHY_CUDA_OVERLAP", "1") != "0";
  if (!asked || stream.gpu->info().capability() < 90) return false;
  static std::mutex mutex;
  static std::map<const void*, bool> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(kernel);
  if (found != known.end()) return found->second;
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), "attributes of a kernel");
  return known[kernel] = attributes.ptxVersion >= 90;
}

template <class... Params, class... Args>
void launch_overlapping(const char* name, void (*kernel)(Params...), const LaunchShape& shape,
                        const Stream& stream, Args&&... args) {
  if (!waits_for_previous(reinterpret_cast<const void*>(kernel), stream))
    return launch(name, kernel, shape, stream, std::forward<Args>(args)...);
  if (shape.shared_bytes > 48 * 1024)
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shape.shared_bytes)),
               name);
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid, config.blockDim = shape.block, config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream_of(stream);
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attributes, config.numAttrs = 1;
  if (shape.cluster > 1) {
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = shape.cluster;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    config.numAttrs = 2;
  }
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), name);
}

}  // namespace tachy::cuda
