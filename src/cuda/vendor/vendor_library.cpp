#include "cuda/vendor/vendor_library.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "base/env.h"
#include "base/os/process.h"

namespace tachy::cuda {
namespace {

std::vector<std::string> folders(std::span<const char* const> packages) {
  std::vector<std::string> all;
  for (const auto& folder : split(env_string("TACHY_CUDA_LIBRARIES", ""), ':')) {
    all.push_back(folder + "/");
    for (const char* package : packages) {
      all.push_back(folder + "/" + package + "/");
      all.push_back(folder + "/nvidia/" + package + "/");
    }
  }
  std::error_code error;
  const auto self = os::executable_path(error);
  if (!error) all.push_back(self.parent_path().string() + "/");
  // The folder `nvidia` beside the Python package in which this code lies: tachyscope/*.so, tachyscope/bin/tachyscope and
  // tachyscope_cuda13/lib/*.so.
  const auto here = os::Library::file_of(reinterpret_cast<const void*>(&folders)).parent_path();
  if (!here.empty())
    for (const auto& site : {here.parent_path(), here.parent_path().parent_path()})
      for (const char* package : packages) all.push_back((site / "nvidia" / package).string() + "/");
  all.push_back("");  // the system's loader
  return all;
}

const char* package_of(std::string_view library) {
  return library.starts_with("libcudnn")  ? "nvidia-cudnn-cu13"
         : library.starts_with("libnccl") ? "nvidia-nccl-cu13"
                                          : "nvidia-cublas";
}

}  // namespace

bool VendorLibrary::open(std::span<const char* const> names, std::span<const char* const> packages,
                         std::string& why) {
  std::string broken;
  for (const auto& folder : folders(packages))
    for (const char* name : names) {
      std::error_code error;
      if (!folder.empty() && !std::filesystem::exists(folder + name, error)) continue;
      std::string reason;
      library_ = os::Library::open(folder + name, reason);
      if (library_) {
        name_ = folder + name;
        return true;
      }
      if (!folder.empty() && broken.empty()) broken = reason;
    }
  why = fmt::format("{} was not found (pip install {} brings it; TACHY_CUDA_LIBRARIES can name its folder)",
                    names[0], package_of(names[0]));
  if (!broken.empty()) why = "could not open it: " + broken;
  return false;
}

void* VendorLibrary::symbol(const char* name) const {
  void* found = library_.symbol(name);
  check(found != nullptr, ErrorCode::unsupported, "{}: it has no {}; a newer version is needed", name_, name);
  return found;
}

}  // namespace tachy::cuda
