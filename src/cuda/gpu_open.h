// Which GPUs there are, and the facts of one.
#pragma once

#include "cuda/gpu.h"

namespace tachy::cuda {

// Makes the GPU this thread's current one. Throws what open_gpu does for a GPU that this build cannot use.
GpuInfo enter_gpu(int index);

}  // namespace tachy::cuda
