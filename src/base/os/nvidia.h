// NVIDIA's driver as the system shows it, without loading any of its libraries.
#pragma once

#include <string>

namespace tachy::os {

// Whether there is one that this process may use; in a container, one that was passed to it.
bool nvidia_gpu_seen();
std::string nvidia_driver_version();  // "580.65.06"; "" if the system does not say

}  // namespace tachy::os
