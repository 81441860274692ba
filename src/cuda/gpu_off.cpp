// The GPU of a build without CUDA: there is none.
#include "base/error.h"
#include "cuda/gpu.h"
#include "cuda/graph.h"

namespace tachy::cuda {

int gpu_count(std::string* why) {
  if (why) *why = "this build has no CUDA (configure with -DTACHY_CUDA=ON)";
  return 0;
}

std::unique_ptr<Gpu> open_gpu(int) {
  fail(ErrorCode::unsupported,
       "device: this build has no CUDA; use --device cpu, or configure with -DTACHY_CUDA=ON");
}

std::unique_ptr<Graph> capture(Gpu&, const std::function<void()>&) {
  fail(ErrorCode::unsupported, "graph: this build has no CUDA");
}

double device_us(Gpu&, const std::function<void()>&) {
  fail(ErrorCode::unsupported, "device time: this build has no CUDA");
}

}  // namespace tachy::cuda
