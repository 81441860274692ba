// NVIDIA's driver as the system shows it, without loading a library of it.
#pragma once

#include <string>

namespace tachy::os {

bool nvidia_gpu_seen();               // one that this process may use, in a container: one that was let in
std::string nvidia_driver_version();  // "580.65.06"; "" where the system does not say

}  // namespace tachy::os
