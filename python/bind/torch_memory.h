// Memory of a GPU from torch's caching allocator, in the order of torch's current stream: torch counts an
// op's scratch and gives it to the next user, and the scratch belongs to the pool of a graph that is being
// captured.
#pragma once

#include <memory>

#include "cuda/gpu.h"

namespace tachy::python {

std::unique_ptr<DeviceMemory> torch_memory(cuda::Gpu& gpu);

}  // namespace tachy::python
