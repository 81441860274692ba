#include "estimate/time_plan.h"

#include <algorithm>
#include <numeric>

#include "cuda/absent_gpu.h"
#include "engine/memory_plan.h"
#include "engine/rank_plan.h"
#include "request/stage_plan.h"
#include "resolve/resolve.h"
#include "session/vae_math.h"

namespace tachy {
namespace {

// The time between two kernels when they are replayed (bench/notes/transformer.md, at the shape of the
// shipped model).
constexpr double kLaunchSeconds = 5e-6;
// The two barriers of an exchange (bench/notes/several_gpus.md: 11 to 14 µs).
constexpr double kBarrierSeconds = 12e-6;

double seconds_at(const OpWork& w, double products, double memory) {
  const double computing = w.flops > 0 ? w.flops / (products * 1e12) : 0;
  return std::max(computing, w.bytes / (memory * 1e12)) + kLaunchSeconds;
}

// Decides how the run would compute on that GPU, as TextToVideo does for a GPU of this machine.
Resolved settle(const ModelBundle& model, const VideoRequest& request, const GpuRates& rates) {
  const GpuMode mode = gpu_mode(request.level, request.dtype.value_or(""), rates.capability,
                                request.residual.value_or(""), request.attention, request.math);
  Resolved out = resolve(model, request, &mode);
  VideoRequest& r = out.request;
  check(*r.sparse_attention == 0 || rates.capability >= 80, ErrorCode::unsupported,
        "`sparse_attention`: needs compute capability 8.0 or later");
  if (!r.loras.empty() && r.lora_mode == "auto")
    r.lora_mode = in_eight_bits(mode.products) ? "merge" : "runtime";
  if (r.speech) out.speech = r.speech->samples;
  return out;
}

// Adds the transfers of each pass: the blocks that do not stay on the GPU. A pass makes patches exactly once.
void add_transfers(TimePlan::Stage& stage, const StagePlan& plan) {
  if (plan.host_bytes == 0) return;
  int64_t passes = 0;
  for (const OpWork& w : stage.work)
    if (w.op == "patchify") passes += w.calls;
  stage.work.push_back({.op = "blocks",
                        .kind = WorkKind::transfer,
                        .bytes = static_cast<double>(plan.host_bytes),
                        .calls = std::max<int64_t>(passes, 1)});
}

}  // namespace

Seconds seconds_of(std::span<const OpWork> work, const GpuRates& rates) {
  Seconds computing, passing;
  for (const OpWork& w : work) {
    const bool exchange = is_exchange(w);
    const Rate& rate = exchange ? rates.link : rate_of(rates, w.kind, w.numbers);
    check(!exchange || rate.known(), ErrorCode::unsupported,
          "`gpus`: how fast several of {} exchange is not known ({}); leave `gpus` out", rates.title,
          rate.source);
    check(rate.known(), ErrorCode::unsupported,
          "`gpu`: how fast {} of {} run on an {} is not known ({}); leave out what asks for them",
          work_kind_name(w.kind), dtype_name(w.numbers), rates.title, rate.source);
    const auto calls = static_cast<double>(w.calls);
    if (exchange) {
      computing.least += calls * (w.bytes / (rate.most * 1e12) + kBarrierSeconds);
      computing.most += calls * (w.bytes / (rate.least * 1e12) + kBarrierSeconds);
    } else if (w.kind == WorkKind::transfer) {
      passing.least += calls * w.bytes / (rate.most * 1e12);
      passing.most += calls * w.bytes / (rate.least * 1e12);
    } else {
      computing.least += calls * seconds_at(w, rate.most, rates.memory.most);
      computing.most += calls * seconds_at(w, rate.least, rates.memory.least);
    }
  }
  return {std::max(computing.least, passing.least), std::max(computing.most, passing.most)};
}

TimePlan plan_time(const TimePlanInput& in, const VideoRequest& request) {
  const GpuRates& rates = find_gpu_rates(in.gpu);
  check_range("gpus", in.gpus, kRanksRange);
  std::vector<int> gpus(in.gpus > 1 ? static_cast<size_t>(in.gpus) : 0);
  std::iota(gpus.begin(), gpus.end(), 0);
  Model model(
      ModelBundle::open(in.model, FileAccess::map, in.parts),
      {.gpus = std::move(gpus), .parallel = parse_parallel(in.parallel, in.gpus, "gpus"), .device = "cpu"});
  const Resolved settled = settle(model.bundle(), request, rates);
  const VideoRequest& r = settled.request;
  SharedPass shared = plan_ranks(model, settled);
  const std::shared_ptr<cuda::Gpu> gpu = cuda::absent_gpu(facts_of(rates));
  const auto adapters = open_adapters(model.bundle(), r, false);
  const Prompts prompts = model.prompts().read(settled, settled.precision, nullptr, true);
  TimePlan out{.gpu = rates.title, .seen = rates.seen, .plan = {}, .request = r};
  WorkTally tally;
  {
    const WorkTally::Counting counting(tally);
    out.plan = make_plan(
        {.model = &model,
         .gpu = gpu,
         .request = &settled,
         .prompts = &prompts,
         .vae = vae_products(r.vae_math, model.bundle().vae_config, settled.precision, gpu.get()),
         .adapters = adapters.get(),
         .room = in.max_vram > 0 ? std::min<uint64_t>(in.max_vram, gpu->free_bytes()) : gpu->free_bytes()});
  }
  put(std::move(shared), out.plan);
  for (auto& [name, work] : tally.stages()) {
    TimePlan::Stage stage{.name = name, .seconds = {}, .work = std::move(work)};
    add_transfers(stage, stage_plan(out.plan, name));
    stage.seconds = seconds_of(stage.work, rates);
    out.seconds.least += stage.seconds.least, out.seconds.most += stage.seconds.most;
    out.stages.push_back(std::move(stage));
  }
  for (size_t i = 0; i < out.stages.size(); ++i) out.plan.stages.at(i).seconds = out.stages[i].seconds.least;
  out.plan.seconds = out.seconds.least;
  return out;
}

}  // namespace tachy
