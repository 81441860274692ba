// The GPU to which this thread's CUDA calls go. CUDA keeps one for each thread and begins with the first GPU,
// so whatever launches, allocates or makes an event makes its own GPU current first. This lets a Gpu work
// from any thread, and restores a caller's choice (PyTorch's, if it shares our process) afterwards.
//
// If the right GPU is already current, which is usual, this costs one query of a few nanoseconds.
#pragma once

#include "cuda/built.h"
#include "cuda/gpu.h"

namespace tachy::cuda {

class CurrentDevice {
 public:
  explicit CurrentDevice(int index) : before_(kernels_here() ? enter(index) : kSame) {}
  explicit CurrentDevice(const Gpu* gpu)
      : before_(kernels_here() && gpu ? enter(gpu->info().index) : kSame) {}
  ~CurrentDevice() {
    if (before_ != kSame) leave(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  static constexpr int kSame = -1;  // nothing was changed
  // Returns the previous one, or kSame. If CUDA fails here, the next call reports it.
  static int enter(int index) noexcept;
  static void leave(int before) noexcept;

  int before_;
};

}  // namespace tachy::cuda
