#include "base/os/nvidia.h"

#include <filesystem>
#include <fstream>

namespace tachy::os {

// Looks for the driver's device files, or for the library that WSL provides.
bool nvidia_gpu_seen() {
  std::error_code ec;
  for (int i = 0; i < 16; ++i)
    if (std::filesystem::exists("/dev/nvidia" + std::to_string(i), ec)) return true;
  return std::filesystem::exists("/usr/lib/wsl/lib/libcuda.so.1", ec);
}

std::string nvidia_driver_version() {
  std::string version;
  if (std::ifstream module("/sys/module/nvidia/version"); module >> version) return version;
  // In "NVRM version: NVIDIA UNIX … Kernel Module  580.65.06  …", find the first word of digits and points
  // that has at least one point.
  std::ifstream text("/proc/driver/nvidia/version");
  for (std::string word; text >> word;)
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  return "";
}

}  // namespace tachy::os
