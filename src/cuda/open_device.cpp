#include "cuda/open_device.h"

#include "base/env.h"
#include "base/error.h"
#include "base/notice.h"
#include "base/os/nvidia.h"

namespace tachy::cuda {
namespace {

constexpr int kCpu = -1, kAuto = -2;

// If less than this is free, "auto" assumes that somebody else uses the GPU.
constexpr size_t kLeastFreeBytes = size_t{1} << 30;

// Returns kCpu, kAuto or the GPU's number.
int index_of(const std::string& wish) {
  const std::string device = wish.empty() ? env_string("TACHY_DEVICE", "auto") : wish;
  if (device == "cpu") return kCpu;
  if (device == "auto") return kAuto;
  const auto colon = device.find(':');
  const std::string kind = device.substr(0, colon);
  const std::string number = colon == std::string::npos ? "0" : device.substr(colon + 1);
  require(kind == "cuda" && !number.empty() && number.size() <= 3 &&
              number.find_first_not_of("0123456789") == std::string::npos,
          "{}: expected cpu, cuda, cuda:N or auto, got '{}'", wish.empty() ? "TACHY_DEVICE" : "`device`",
          device);
  return std::stoi(number);
}

std::string try_gpu(int index) {
  const auto gpu = open_gpu(index);
  check(gpu->free_bytes() >= kLeastFreeBytes, ErrorCode::out_of_memory,
        "{} has {} of {} free (nvidia-smi shows who holds the rest)", gpu->info().name,
        human_bytes(gpu->free_bytes()), human_bytes(gpu->info().memory_bytes));
  return gpu->info().name;
}

}  // namespace

void check_device_name(const std::string& wish) { index_of(wish); }
bool is_automatic(const std::string& wish) { return index_of(wish) == kAuto; }

DeviceChoice search_device(const GpuSearch& search) {
  std::string why;
  const int count = search.count(&why);
  for (int i = 0; i < count; ++i) {
    try {
      const std::string name = search.try_gpu(i);
      const std::string device = fmt::format("cuda:{}", i);
      return {device, fmt::format("running on {} ({}); `device` cpu runs on the CPU", name, device)};
    } catch (const Error& e) {
      if (e.code() == ErrorCode::invalid_argument) throw;  // an error in an environment variable
      if (why.empty()) why = e.message();
    }
  }
  if (count == 0 && !search.seen) return {"cpu", ""};
  return {"cpu", fmt::format("running on the CPU, since the GPU cannot be used: {}", why)};
}

std::string choose_device(const std::string& wish) {
  const int index = index_of(wish);
  if (index == kCpu) return "cpu";
  if (index != kAuto) return fmt::format("cuda:{}", index);
  const DeviceChoice choice = search_device({gpu_count, try_gpu, os::nvidia_gpu_seen()});
  if (!choice.line.empty()) say_line(choice.line);
  return choice.device;
}

std::unique_ptr<Gpu> open_device(const std::string& wish) {
  const int index = index_of(choose_device(wish));
  if (index == kCpu) return nullptr;
  try {
    return open_gpu(index);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::invalid_argument) throw;
    throw Error(e.code(), fmt::format("`device`: {}; `device` cpu runs without a GPU", e.message()),
                e.where());
  }
}

}  // namespace tachy::cuda
