// Where a tensor lies: on the host, on one of the GPUs, or nowhere (in a measure run).
#pragma once

#include <cstdint>
#include <string>

namespace tachy {

// `null` is the device of a measure run, where tensors have shapes but no storage and ops return before their
// kernel.
enum class DeviceType : uint8_t { cpu, null, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  uint8_t index = 0;  // which of several GPUs, as CUDA counts them

  static const Device cpu, null;
  static constexpr Device cuda(int index) { return {DeviceType::cuda, static_cast<uint8_t>(index)}; }

  bool operator==(const Device&) const = default;
};
inline constexpr Device Device::cpu{DeviceType::cpu, 0};
inline constexpr Device Device::null{DeviceType::null, 0};

std::string device_name(Device device);  // "cpu", "cuda:1", "nowhere (a measure run)"

}  // namespace tachy
