// --device of every command.
#pragma once

#include "cuda/gpu.h"

namespace tachy::cuda {

// The GPU that a --device names: null for "cpu", and for "auto" where there is none; "cuda", "cuda:1". Throws
// invalid_argument for another text, otherwise as open_gpu.
std::unique_ptr<Gpu> open_device(const std::string& device);

// The same without opening it: throws invalid_argument for a text that names no device.
void check_device_name(const std::string& device);

}  // namespace tachy::cuda
