#include "cuda/open_device.h"

#include <algorithm>

#include "base/env.h"
#include "base/error.h"
#include "base/notice.h"
#include "base/os/nvidia.h"
#include "cuda/peers.h"

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

std::vector<int> gpus_of(const std::string& wish, const std::string& device, int count,
                         const std::string& why) {
  const auto number = [&](std::string_view text) {
    require(
        !text.empty() && text.size() <= 3 && text.find_first_not_of("0123456789") == std::string_view::npos,
        "`gpus`: expected a number of GPUs, a list such as 0,2, or all, got '{}'", wish);
    return std::stoi(std::string(text));
  };
  std::vector<int> out;
  if (wish.find(',') != std::string::npos)
    for (size_t at = 0; at <= wish.size();) {
      const size_t end = std::min(wish.find(',', at), wish.size());
      const int index = number(std::string_view(wish).substr(at, end - at));
      require(std::ranges::find(out, index) == out.end(), "`gpus`: {} is there twice in '{}'", index, wish);
      out.push_back(index), at = end + 1;
    }
  const int first = wish == "all" || !out.empty() ? 0 : number(wish);
  require(wish == "all" || !out.empty() || first > 0, "`gpus`: expected one GPU or more, got 0");
  require(device != "cpu", "`gpus`: they are not the CPU; leave `gpus` or `device` cpu out");
  check(count > 0, ErrorCode::unsupported,
        "`gpus`: none of '{}' is there: {}; `device` cpu runs without a GPU", wish, why);
  if (out.empty())
    for (int i = 0; i < (wish == "all" ? count : first); ++i) out.push_back(i);
  const int last = *std::ranges::max_element(out);
  check(last < count, ErrorCode::unsupported, "`gpus`: expected GPUs from 0 to {}, got {}", count - 1, last);
  check(out.size() <= PeerGroup::kMostRanks, ErrorCode::unsupported,
        "`gpus`: at most {} may share a clip, got {}", PeerGroup::kMostRanks, out.size());
  require(!device.starts_with("cuda:") || index_of(device) == out.front(),
          "`gpus`: the first of them is cuda:{}, and `device` is {}; leave one of the two out", out.front(),
          device);
  return out;
}

std::vector<int> choose_gpus(const std::string& wish, const std::string& device) {
  std::string why;
  const int count = gpu_count(&why);
  return gpus_of(wish, device, count, why);
}

std::string device_of_process(const std::string& wish, int place_on_host, int count, const std::string& why) {
  const int index = index_of(wish);
  const std::string asked = wish.empty() ? env_string("TACHY_DEVICE", "auto") : wish;
  if (index == kCpu) return "cpu";
  if (asked.find(':') != std::string::npos) return fmt::format("cuda:{}", index);
  if (index == kAuto && count == 0) return "cpu";
  check(count > 0, ErrorCode::unsupported, "`device`: {}; `device` cpu runs without a GPU", why);
  // A launcher that gives each process its own GPU lets it see no other.
  if (count == 1) return "cuda:0";
  check(place_on_host < count, ErrorCode::unsupported,
        "`distributed`: this process has number {} on its host (counted from 0), which has {} GPUs; each "
        "takes one",
        place_on_host, count);
  return fmt::format("cuda:{}", place_on_host);
}

std::string device_of_process(const std::string& wish, int place_on_host) {
  std::string why;
  const int count = index_of(wish) == kCpu ? 0 : gpu_count(&why);
  return device_of_process(wish, place_on_host, count, why);
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
