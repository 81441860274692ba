// Finds the GPUs of this machine, and the facts of one.
#pragma once

#include "cuda/gpu.h"

namespace tachy::cuda {

// Makes the GPU this thread's current one. For a GPU that this build cannot use it throws
// the same errors as open_gpu.
GpuInfo enter_gpu(int index);

}  // namespace tachy::cuda
