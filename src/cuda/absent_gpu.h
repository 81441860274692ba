// A GPU that is not present: a few facts about it, for plans. Nothing can be allocated or computed on it. A
// build without CUDA has it, too.
#pragma once

#include <memory>

#include "cuda/gpu.h"

namespace tachy::cuda {

// All of its memory counts as free, except for the share that a context takes.
// TACHY_CUDA_CAPABILITY does not change it.
std::unique_ptr<Gpu> absent_gpu(const GpuInfo& facts);
bool is_absent(const Gpu* gpu);  // null is not absent

}  // namespace tachy::cuda
