#include "cuda/gpu_facts.h"

#include <fmt/format.h>

namespace tachy::cuda {

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

}  // namespace tachy::cuda
