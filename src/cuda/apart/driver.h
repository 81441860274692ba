// Asks NVIDIA's driver about the GPUs that this process may use, without CUDA's runtime: that lies in the
// libraries of kernels, one of which is chosen by these facts.
#pragma once

#include <string>
#include <vector>

namespace tachy::cuda {

inline constexpr int kNeededDriver =
    13000;  // the CUDA that kernels are compiled with, in the driver's numbering

struct DriverFacts {
  int version = 0;                // 13000; 0 without a driver
  std::vector<int> capabilities;  // of each GPU: 90 for 9.0
  std::string why;                // there is no GPU: the driver's reason
};

DriverFacts ask_driver(const std::string& library = "libcuda.so.1");

// Returns what a user is told whose driver cannot run these kernels; "" if it can.
std::string why_not_driver(const DriverFacts& facts);

}  // namespace tachy::cuda
