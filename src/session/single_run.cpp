#include "session/single_run.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "catalog/model_bundle.h"
#include "cuda/open_device.h"
#include "request/precision_of.h"
#include "tensor/memory.h"

namespace tachy {

void run_planned(const SingleRun& how, const std::function<void(Stream&)>& body) {
  const std::unique_ptr<cuda::Gpu> gpu = cuda::open_device(how.device);
  ThreadPool pool(how.threads > 0 ? how.threads : available_processors());
  Arena measure;
  Stream stream{.arena = &measure, .pool = &pool, .hooks = {.cancel = how.cancel}};
  stream.gpu = gpu.get(), stream.memory = gpu.get();
  stream.precision = precision_at(how.level, how.dtype, capability_of(gpu.get()));
  body(stream);
  Arena arena(std::max<size_t>(measure.peak(), 1), gpu.get());
  stream.arena = &arena;
  body(stream);
}

}  // namespace tachy
