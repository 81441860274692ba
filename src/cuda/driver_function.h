// Functions of the driver that the runtime has no name for.
#pragma once

#include <cuda.h>

#include "cuda/runtime.h"

namespace tachy::cuda {

// Throws `unsupported` if the driver has no function of that name.
template <class F>
F* driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  check_cuda(cudaGetDriverEntryPointByVersion(name, &found, 12040, cudaEnableDefault, &result), name);
  check(result == cudaDriverEntryPointSuccess, ErrorCode::unsupported, "the driver has no {}", name);
  return reinterpret_cast<F*>(found);
}

}  // namespace tachy::cuda
