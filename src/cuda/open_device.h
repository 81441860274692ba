// A wish for a device, and what it comes to on this machine.
#pragma once

#include <functional>

#include "cuda/gpu.h"

namespace tachy::cuda {

// What a wish comes to here: "cpu" or "cuda:N". "auto" is the first GPU that this build can use now,
// otherwise the CPU; a line on stderr names the GPU, or says why one that is there is not used. "" is what
// TACHY_DEVICE says, otherwise auto. A GPU named by the wish is not opened: open_device tells whether it can
// be. Throws invalid_argument for a text that names no device.
std::string choose_device(const std::string& wish);

bool is_automatic(const std::string& wish);

// The GPU of choose_device(wish): null for the CPU. Throws unsupported, out_of_memory or device for a GPU
// that was asked for and cannot be used, saying why.
std::unique_ptr<Gpu> open_device(const std::string& wish);

// Throws invalid_argument for a text that names no device; opens nothing.
void check_device_name(const std::string& wish);

// What "auto" asks a machine; tests are a machine of their own.
struct GpuSearch {
  std::function<int(std::string* why)> count;  // of GPUs; with 0, why there is none
  std::function<std::string(int)> try_gpu;     // its name; throws why it cannot be used
  bool seen = false;                           // the machine has a GPU, whatever count() says
};
struct DeviceChoice {
  std::string device, line;  // line: for stderr, or ""
};
DeviceChoice search_device(const GpuSearch& search);

}  // namespace tachy::cuda
