// How a program whose kernels lie in a library gets its GPUs: the library is opened when one is asked for.
#include <mutex>

#include "base/env.h"
#include "base/error.h"
#include "base/os/library.h"
#include "base/os/nvidia.h"
#include "cuda/apart/kernel_loader.h"
#include "cuda/built.h"
#include "cuda/capture_leave.h"
#include "cuda/gpu_facts.h"

namespace tachy::cuda {

extern "C" {
extern const Seam tachy_seam;  // written by tools/kernel_seam, like what follows
extern const char tachy_seam_stamp[];

// The slots point here until a library is opened, and those of what it lacks afterwards: kernels of another
// architecture, which no table offers for its GPUs.
[[noreturn]] void tachy_seam_empty() {
  fail(ErrorCode::internal, "a kernel was called that is in no library of this process");
}
}

std::atomic<bool> kernels_opened{false};

namespace {

std::vector<std::filesystem::path> folders() {
  return kernel_folders(env_string("TACHY_CUDA_KERNELS", ""),
                        os::Library::file_of(reinterpret_cast<const void*>(&tachy_seam_empty)));
}

// A failure is not kept: the next caller tries again.
const OpenedKernels& kernels(std::string& why) {
  static std::mutex mutex;
  static OpenedKernels opened;
  const std::lock_guard lock(mutex);
  if (!opened.library) {
    opened = open_kernels({.folders = folders(),
                           .stamp = tachy_seam_stamp,
                           .seam = &tachy_seam,
                           .gpu_seen = os::nvidia_gpu_seen()},
                          why);
    if (opened.library) kernels_opened = true;
  }
  return opened;
}

}  // namespace

std::string kernels_of_build() {
  const std::vector<KernelFile> files = kernel_files(folders());
  if (files.empty()) return "none (tachyscope-cuda13 brings them)";
  return fmt::format("CUDA {}, for {} (libraries in {})", cuda_version(kNeededDriver),
                     architectures_of(files), files.front().path.parent_path().lexically_normal().string());
}

int gpu_count(std::string* why) {
  std::string reason;
  const OpenedKernels& opened = kernels(reason);
  if (opened.library) return opened.library->gpu_count(why);
  if (why) *why = reason;
  return 0;
}

std::unique_ptr<Gpu> open_gpu(int index, std::optional<OutsideQueue> queue) {
  std::string why;
  const OpenedKernels& opened = kernels(why);
  if (opened.library) why = why_not_gpu(opened, index);
  check(opened.library && why.empty(), ErrorCode::unsupported, "{}", why);
  const CaptureLeave leave;  // the first one that a process may have, now that CUDA's runtime is here
  return opened.library->open_gpu(index, queue);
}

}  // namespace tachy::cuda
