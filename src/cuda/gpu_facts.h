// The facts that `doctor` and `bench` report about a GPU and about the libraries that ops use there.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cuda/gpu.h"

namespace tachy::cuda {

// "cuBLASLt" → "13.1.0", or the reason why it cannot be used; opens the libraries.
std::vector<std::pair<std::string, std::string>> vendor_libraries(Gpu& gpu);

// Returns the kernels for GPUs that this program has: "CUDA 13.0, for 75 80 90a", or "none". Where they lie in
// libraries of their own, these are looked for and not opened.
std::string kernels_of_build();

// 13000 → "13.0"
std::string cuda_version(int number);

}  // namespace tachy::cuda
