// Launches that are loaded while the kernel before them ends (programmatic dependent launch, Hopper and
// later). The kernel waits with device::wait_for_previous_kernel (device/overlap.cuh) before it reads or
// writes memory, so it finds the same memory as after any other launch. This saves 0.2 to 0.3 us of the 4 to
// 10 us of a short norm, 4 % of the small model's generation, and 0.5 % of a block of Self-Forcing, whose
// attention is launched like this. Results have the same bits. TACHY_CUDA_OVERLAP=0 makes plain launches.
#pragma once

#include <map>
#include <mutex>

#include "base/env.h"
#include "cuda/runtime.h"

namespace tachy::cuda {

// Whether the kernel waits: only code that is compiled for such a GPU does.
inline bool waits_for_previous(const void* kernel, const Stream& stream) {
  static const bool asked = env_string("TACHY_CUDA_OVERLAP", "1") != "0";
  if (!asked || stream.without.has(Optimisation::kernel_overlap) || stream.gpu->info().capability() < 90)
    return false;
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
void launch_overlapping(const char* name, void (*kernel)(Params...), LaunchShape shape, const Stream& stream,
                        Args&&... args) {
  shape.overlapping = waits_for_previous(reinterpret_cast<const void*>(kernel), stream);
  launch(name, kernel, shape, stream, std::forward<Args>(args)...);
}

}  // namespace tachy::cuda
