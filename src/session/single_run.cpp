#include "session/single_run.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "catalog/model_bundle.h"
#include "cuda/open_device.h"
#include "request/gpu_mode.h"
#include "request/level.h"
#include "tensor/memory.h"

namespace tachy {

void run_planned(const SingleRun& how, const std::function<void(Stream&, bool)>& body) {
  const std::unique_ptr<cuda::Gpu> gpu = cuda::open_device(how.device);
  ThreadPool pool(how.threads > 0 ? how.threads : available_processors());
  Arena measure;
  const Level& level = find_level(how.level);
  Stream stream{.arena = &measure, .pool = &pool, .hooks = {.cancel = how.cancel}};
  if (gpu) {
    stream.gpu = gpu.get(), stream.memory = gpu.get();
    const GpuMode mode = gpu_mode(how.level, how.dtype, gpu->info().capability());
    stream.precision = {.activation = mode.activation, .residual = mode.residual, .products = mode.products};
  } else {
    stream.precision.compute = how.dtype.empty() ? level.mode.compute : parse_compute(how.dtype);
    stream.precision.definitions = level.mode.reference;
  }
  body(stream, true);
  Arena arena(std::max<size_t>(measure.peak(), 1), gpu.get());
  stream.arena = &arena;
  body(stream, false);
}

}  // namespace tachy
