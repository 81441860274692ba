#include "cuda/apart/driver.h"

#include <fmt/format.h>

#include "base/os/library.h"
#include "base/os/nvidia.h"
#include "cuda/gpu_facts.h"

namespace tachy::cuda {
namespace {

// From CUDA's driver interface, whose header a build for CPUs does not have.
constexpr int kSuccess = 0, kMajor = 75, kMinor = 76;
using Init = int(unsigned flags);
using DriverGetVersion = int(int* version);
using DeviceGetCount = int(int* count);
using DeviceGet = int(int* device, int index);
using DeviceGetAttribute = int(int* value, int attribute, int device);
using GetErrorString = int(int error, const char** text);

template <class Function>
bool find(const os::Library& library, const char* name, Function*& to) {
  to = reinterpret_cast<Function*>(library.symbol(name));
  return to != nullptr;
}

}  // namespace

DriverFacts ask_driver(const std::string& name) {
  DriverFacts facts;
  const os::Library library = os::Library::open(name, facts.why);
  if (!library) return facts;
  Init* init = nullptr;
  DriverGetVersion* version = nullptr;
  DeviceGetCount* get_count = nullptr;
  DeviceGet* get = nullptr;
  DeviceGetAttribute* attribute = nullptr;
  GetErrorString* error_text = nullptr;
  if (!find(library, "cuInit", init) || !find(library, "cuDriverGetVersion", version) ||
      !find(library, "cuDeviceGetCount", get_count) || !find(library, "cuDeviceGet", get) ||
      !find(library, "cuDeviceGetAttribute", attribute) || !find(library, "cuGetErrorString", error_text)) {
    facts.why = name + " lacks functions of CUDA's driver";
    return facts;
  }
  version(&facts.version);
  const auto failed = [&](int status) {
    const char* text = nullptr;
    if (status == kSuccess) return false;
    error_text(status, &text);
    facts.why = text ? text : fmt::format("error {} of the driver", status);
    return true;
  };
  int count = 0;
  if (failed(init(0)) || failed(get_count(&count))) return facts;
  for (int i = 0; i < count; ++i) {
    int device = 0, major = 0, minor = 0;
    if (failed(get(&device, i)) || failed(attribute(&major, kMajor, device)) ||
        failed(attribute(&minor, kMinor, device)))
      return facts;
    facts.capabilities.push_back(major * 10 + minor);
  }
  if (count == 0) facts.why = "the driver shows this process none (CUDA_VISIBLE_DEVICES may hide them)";
  return facts;
}

std::string why_not_driver(const DriverFacts& facts) {
  if (facts.version == 0) return "no NVIDIA driver is loaded";
  if (facts.version < kNeededDriver) {
    const std::string release = os::nvidia_driver_version();
    return fmt::format(
        "the driver{} is for CUDA {}, and the kernels need {}: install NVIDIA's driver 580 or newer",
        release.empty() ? "" : " (" + release + ")", cuda_version(facts.version),
        cuda_version(kNeededDriver));
  }
  if (facts.capabilities.empty()) return "no usable GPU: " + facts.why;
  return "";
}

}  // namespace tachy::cuda
