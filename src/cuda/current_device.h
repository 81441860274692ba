// The GPU that this thread's CUDA calls go to. CUDA keeps one for each thread and begins with the first GPU, so
// whatever launches, allocates or makes an event puts its own in place first: a Gpu works from any thread, and
// a caller's choice (PyTorch's, in one process with us) is as before afterwards.
//
// Where it is in place already, which is the rule, this costs one query of a few nanoseconds.
#pragma once

#include "cuda/built.h"
#include "cuda/gpu.h"

namespace tachy::cuda {

class CurrentDevice {
 public:
  explicit CurrentDevice(int index) : before_(kBuilt ? enter(index) : kSame) {}
  explicit CurrentDevice(const Gpu* gpu) : before_(kBuilt && gpu ? enter(gpu->info().index) : kSame) {}
  ~CurrentDevice() {
    if (before_ != kSame) leave(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  static constexpr int kSame = -1;  // nothing was changed
  // Returns the one before, or kSame. Where CUDA fails, the next call says so.
  static int enter(int index) noexcept;
  static void leave(int before) noexcept;

  int before_;
};

}  // namespace tachy::cuda
