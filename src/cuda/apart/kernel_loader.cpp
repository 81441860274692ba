#include "cuda/apart/kernel_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/os/library.h"

namespace tachy::cuda {
namespace {

constexpr const char* kInstall =
    "install tachyscope-cuda13 of this version (pip install tachyscope-cuda13, or the package of that name); "
    "TACHY_CUDA_KERNELS names another folder";

const KernelLibrary* library_in(const KernelFile& file, const KernelSearch& search, std::string& why) {
  std::string reason;
  const os::Library opened = os::Library::open(file.path.string(), reason);
  if (!opened) {
    why = fmt::format("could not open the kernels: {}", reason);
    return nullptr;
  }
  const auto* library = static_cast<const KernelLibrary*>(opened.symbol(kKernelSymbol));
  if (!library || library->bytes != sizeof(KernelLibrary)) {
    why = fmt::format("{} is no library of kernels of this version: {}", file.path.string(), kInstall);
    return nullptr;
  }
  if (library->stamp != search.stamp) {
    why = fmt::format("{} belongs to another build ({}, this program is {}): {}", file.path.string(),
                      library->stamp, search.stamp, kInstall);
    return nullptr;
  }
  const std::lock_guard lock(library->joint->mutex);
  const auto missing =
      library->joint->joined ? std::vector<std::string>() : fill_slots(*library->seam, *search.seam);
  if (!missing.empty()) {
    why = fmt::format("{} needs {} of this program, which lacks it: {}", file.path.string(), missing.front(),
                      kInstall);
    return nullptr;
  }
  library->joint->joined = true;
  fill_slots(*search.seam, *library->seam);
  return library;
}

}  // namespace

std::vector<std::string> fill_slots(const Seam& needs, const Seam& offers) {
  std::vector<std::string> missing;
  const auto *begin = offers.offered_names, *end = begin + offers.offered_count;
  for (uint64_t i = 0; i < needs.needed_count; ++i) {
    const char* name = needs.needed_names[i];
    const auto* at = std::lower_bound(begin, end, name,
                                      [](const char* a, const char* b) { return std::strcmp(a, b) < 0; });
    if (at == end || std::strcmp(*at, name) != 0)
      missing.emplace_back(name);
    else if (void* function = offers.offered[at - begin])
      needs.needed[i] = function;
  }
  return missing;
}

OpenedKernels open_kernels(const KernelSearch& search, std::string& why) {
  if (!search.gpu_seen) {
    why = "no NVIDIA driver is loaded";
    return {};
  }
  const std::vector<KernelFile> files = kernel_files(search.folders);
  if (files.empty()) {
    why =
        fmt::format("this program has kernels for CPUs alone, and none for GPUs lie beside it: {}", kInstall);
    return {};
  }
  const DriverFacts driver = ask_driver(search.driver);
  why = why_not_driver(driver);
  if (!why.empty()) return {};
  const KernelFile* file = choose_kernels(files, driver.capabilities);
  if (!file) {
    const int c = driver.capabilities.front();
    why = fmt::format("the GPU has compute capability {}.{}, and {} has kernels for {} only", c / 10, c % 10,
                      files.front().path.parent_path().string(), architectures_of(files));
    return {};
  }
  const KernelLibrary* library = library_in(*file, search, why);
  if (!library) return {};
  return {library, *file, driver.capabilities};
}

std::string why_not_gpu(const OpenedKernels& opened, int index) {
  if (index < 0 || static_cast<size_t>(index) >= opened.capabilities.size()) return "";  // the library tells
  const int c = opened.capabilities[static_cast<size_t>(index)];
  if (fitness(opened.file, c) > 0) return "";
  return fmt::format(
      "GPU {} has compute capability {}.{}, and this process has opened {} for its first GPU: a process of "
      "its own, with "
      "CUDA_VISIBLE_DEVICES={}, can use it",
      index, c / 10, c % 10, opened.file.path.filename().string(), index);
}

}  // namespace tachy::cuda
