// Finds out about NVIDIA's driver without loading any of its libraries.
#pragma once

#include <string>

namespace tachy::os {

// Says whether there is an NVIDIA GPU that this process may use; in a container, one that was passed to it.
bool nvidia_gpu_seen();
std::string nvidia_driver_version();  // "580.65.06"; "" if the system does not say

}  // namespace tachy::os
