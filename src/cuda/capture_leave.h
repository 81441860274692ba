// While work is being captured on a queue (by PyTorch, for example), CUDA forbids every thread to allocate or
// to wait, since such a call might wait for work that is only being recorded. Code whose calls certainly do
// not wait for it (a Gpu that is opened, a board that is made) holds one of these meanwhile.
#pragma once

#include "cuda/built.h"

namespace tachy::cuda {

class CaptureLeave {
 public:
  CaptureLeave() : here_(kernels_here()), before_(here_ ? exchange(kRelaxed) : 0) {}
  ~CaptureLeave() {
    if (here_) exchange(before_);
  }
  CaptureLeave(const CaptureLeave&) = delete;
  CaptureLeave& operator=(const CaptureLeave&) = delete;

 private:
  static constexpr int kRelaxed = 2;  // cudaStreamCaptureModeRelaxed
  static int exchange(int mode) noexcept;
  bool here_;   // kernels may be opened meanwhile
  int before_;  // this thread's earlier mode
};

}  // namespace tachy::cuda
