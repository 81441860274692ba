// A device that somebody asks for, and the device that this machine has for it.
#pragma once

#include <functional>
#include <vector>

#include "cuda/gpu.h"

namespace tachy::cuda {

// The device for a wish: "cpu" or "cuda:N". "auto" means the first GPU that this build can use now, otherwise
// the CPU; a line on stderr names the GPU, or says why an existing one is not used. "" means the value of
// TACHY_DEVICE, otherwise auto. A GPU that the wish names is not opened here: open_device finds out whether
// it can be. Throws `invalid_argument` for a text that names no device.
std::string choose_device(const std::string& wish);

bool is_automatic(const std::string& wish);

// The device of one of several processes that a launcher has started: unless the wish names one, it is the GPU with the
// process's number on its host, or the only one that it sees. `count` is how many there are, or 0 with the reason `why`.
// Throws `unsupported` where there are too few.
std::string device_of_process(const std::string& wish, int place_on_host, int count, const std::string& why);
std::string device_of_process(const std::string& wish, int place_on_host);  // the same for this machine

// Opens the GPU of choose_device(wish); null for the CPU. Throws `unsupported`, `out_of_memory` or `device`,
// with the reason, for a GPU that was asked for and cannot be used.
std::unique_ptr<Gpu> open_device(const std::string& wish);

// Returns the GPUs that a wish means, as CUDA counts them: "all", their number ("4": the first four) or a list
// ("0,2,3"). The first one does what is not divided. `device` is what was asked for besides. `count` is how many
// there are, or 0 with the reason `why`. Throws `invalid_argument` for a text that means nothing, for a GPU that
// is named twice and for a device that is another one, and `unsupported` where there are too few.
std::vector<int> gpus_of(const std::string& wish, const std::string& device, int count,
                         const std::string& why);
// The same for this machine.
std::vector<int> choose_gpus(const std::string& wish, const std::string& device);

// Throws `invalid_argument` for a text that names no device; opens nothing.
void check_device_name(const std::string& wish);

// The questions that "auto" asks a machine; tests answer them in place of a machine.
struct GpuSearch {
  std::function<int(std::string* why)> count;  // number of GPUs; if 0, sets `why`
  std::function<std::string(int)> try_gpu;     // returns its name; throws the reason why it cannot be used
  bool seen = false;                           // whether the machine has a GPU, whatever count() says
};
struct DeviceChoice {
  std::string device, line;  // line: text for stderr, or ""
};
DeviceChoice search_device(const GpuSearch& search);

}  // namespace tachy::cuda
