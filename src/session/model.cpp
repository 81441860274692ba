#include "session/model.h"

#include <algorithm>

#include "base/env.h"
#include "base/memory_room.h"
#include "cuda/open_device.h"
#include "runtime/crew.h"
#include "session/admission.h"
#include "session/product_rate.h"
#include "session/stage_clock.h"
#include "tensor/streaming_memory.h"

namespace tachy {

void check_arena(const ModelOptions& options, bool graphs) {
  require(options.arena || !graphs,
          "`arena`: a CUDA graph needs its memory at fixed addresses, so intermediates can be allocations of "
          "their own "
          "on a GPU only without graphs (`graphs`)");
}

int processes_of(const runtime::Crew& crew) { return crew.size(); }

Model::Model(ModelBundle bundle, ModelOptions options)
    : bundle_(std::move(bundle)),
      options_(std::move(options)),
      pool_(options_.threads > 0 ? options_.threads : available_processors()),
      prompts_(bundle_, options_.text_cache) {
  const MemoryRoom room = memory_room(pool_.threads());
  check(room.bytes >= kLibraryBytes, ErrorCode::out_of_memory, "any run needs {} of memory, but {} leaves {}",
        human_bytes(kLibraryBytes), room.limit, human_bytes(room.bytes));
  if (options_.crew)
    options_.device = cuda::device_of_process(options_.device, options_.crew->place_on_host());
  gpu_ = cuda::open_device(options_.device);
  if (gpu_) gpus_.push_back(gpu_);
  require(options_.ranks == 1 || !memory(),
          "`ranks`: only a run on the CPU has several, and this one is on a GPU; leave it out, or choose "
          "`device` cpu");
  if (on_gpus()) {
    // A plan for GPUs that are not here has none open.
    check(!gpu_ || gpu_->info().index == options_.gpus.front(), ErrorCode::internal,
          "model: `gpus` begins with cuda:{}, and `device` is {}", options_.gpus.front(), options_.device);
    require(!options_.verify_upload, "`verify_upload`: it looks at one GPU; leave it or `gpus` out");
    for (size_t i = 1; i < options_.gpus.size(); ++i) rank_parts_.emplace_back();
  }
  require(options_.ranks == 1 || !options_.crew,
          "`ranks`: where several processes make a video (`distributed`), each is one rank; leave it out");
  if (options_.verify_upload) {
    require(memory(),
            "`verify_upload`: it compares weights on a GPU with their files, and this run is on the CPU; "
            "leave it out, or choose a GPU with `device` cuda");
    check_ = std::make_unique<nn::UploadCheck>(*StreamingMemory::of(memory()), pool_);
  }
  tenancy_ = std::make_unique<Tenancy>(*this);
}

Model::~Model() = default;

std::shared_ptr<cuda::Gpu> Model::take_gpu() {
  if (!gpu_) return nullptr;
  const std::lock_guard lock(mutex_);
  if (first_taken_.expired()) {
    // The GPU itself stays alive in gpu_; when its last user is gone, only the mark that it is taken expires.
    const auto taken = std::make_shared<const std::shared_ptr<cuda::Gpu>>(gpu_);
    first_taken_ = taken;
    return {taken, gpu_.get()};
  }
  std::shared_ptr<cuda::Gpu> opened = cuda::open_gpu(gpu_->info().index);
  std::erase_if(gpus_, [](const auto& weak) { return weak.expired(); });
  gpus_.push_back(opened);
  return opened;
}

uint64_t Model::live_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t total = 0;
  for (const auto& weak : gpus_)
    if (const auto gpu = weak.lock()) total += gpu->live_bytes();
  return total;
}

double Model::flops_per_second(const Precision& precision) {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, rate] : flops_per_second_)
    if (known == precision) return rate;
  return flops_per_second_.emplace_back(precision, measure_flops(precision)).second;
}

double Model::measure_flops(const Precision& precision) {
  if (gpu_) {  // a rough figure: the multiprocessors at 1.7 GHz and three quarters of the products' rate
    const double low = gpu_->info().major >= 9 ? (precision.products == Products::e4m3 ? 6144 : 4096) : 2048;
    const double per_clock = precision.activation == DType::f32 ? 256 : low;
    return 0.75 * 1.7e9 * per_clock * gpu_->info().multiprocessors;
  }
  return cpu_products_per_second(pool_, precision);
}

}  // namespace tachy
