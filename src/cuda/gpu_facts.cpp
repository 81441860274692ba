#include "cuda/gpu_facts.h"

#include <fmt/format.h>

#include <fstream>

namespace tachy::cuda {

std::string driver_version() {
  std::string version;
  if (std::ifstream module("/sys/module/nvidia/version"); module >> version) return version;
  // "NVRM version: NVIDIA UNIX … Kernel Module  580.65.06  …":
  // the first word that consists of digits and points and has a point.
  std::ifstream text("/proc/driver/nvidia/version");
  for (std::string word; text >> word;)
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  return "";
}

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

}  // namespace tachy::cuda
