// A GPU's memory from torch's caching allocator, in the order of torch's current stream: what an op takes as scratch is
// then torch's to count and to give to the next, and belongs to the pool of a graph that is being captured.
#pragma once

#include <memory>

#include "cuda/gpu.h"

namespace tachy::python {

std::unique_ptr<DeviceMemory> torch_memory(cuda::Gpu& gpu);

}  // namespace tachy::python
