#include "cuda/open_device.h"

#include "base/error.h"

namespace tachy::cuda {
namespace {

// -1: the CPU; -2: whichever there is.
int index_of(const std::string& device) {
  if (device == "cpu") return -1;
  if (device == "auto") return -2;
  const auto colon = device.find(':');
  const std::string kind = device.substr(0, colon);
  const std::string number = colon == std::string::npos ? "0" : device.substr(colon + 1);
  require(kind == "cuda" && !number.empty() && number.size() <= 3 &&
              number.find_first_not_of("0123456789") == std::string::npos,
          "--device: expected cpu, cuda, cuda:N or auto, got '{}'", device);
  return std::stoi(number);
}

}  // namespace

void check_device_name(const std::string& device) { index_of(device); }

std::unique_ptr<Gpu> open_device(const std::string& device) {
  int index = index_of(device);
  if (index == -2) index = gpu_count() > 0 ? 0 : -1;
  return index < 0 ? nullptr : open_gpu(index);
}

}  // namespace tachy::cuda
