// A GPU that is not here: a few facts of it, for plans. Nothing can be allocated or computed there. A build without
// CUDA has it, too.
#pragma once

#include <memory>

#include "cuda/gpu.h"

namespace tachy::cuda {

// Its memory is all free, but for the share that a context takes. TACHY_CUDA_CAPABILITY does not change it.
std::unique_ptr<Gpu> absent_gpu(const GpuInfo& facts);
bool is_absent(const Gpu* gpu);  // null is not

}  // namespace tachy::cuda
