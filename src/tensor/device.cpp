#include "tensor/device.h"

namespace tachy {

std::string device_name(Device device) {
  switch (device.type) {
    case DeviceType::cpu:
      return "cpu";
    case DeviceType::cuda:
      return "cuda:" + std::to_string(device.index);
    case DeviceType::null:
      break;
  }
  return "nowhere (a measure run)";
}

}  // namespace tachy
