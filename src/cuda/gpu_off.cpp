// The GPU of a build without CUDA: there is none.
#include "base/error.h"
#include "cuda/gpu.h"

namespace tachy::cuda {

int gpu_count(std::string* why) {
  if (why) *why = "this build has no CUDA (configure with -DTACHY_CUDA=ON)";
  return 0;
}

std::unique_ptr<Gpu> open_gpu(int) {
  fail(ErrorCode::unsupported,
       "device: this build has no CUDA; use --device cpu, or configure with -DTACHY_CUDA=ON");
}

}  // namespace tachy::cuda
