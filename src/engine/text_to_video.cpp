#include "engine/text_to_video.h"

#include <optional>

#include "base/env.h"
#include "base/log.h"
#include "cuda/event_profiler.h"
#include "denoise/noise_source.h"
#include "denoise/talk_progress.h"
#include "engine/courses/course.h"
#include "engine/crew_run.h"
#include "engine/first_latents.h"
#include "engine/memory_plan.h"
#include "engine/optimisations.h"
#include "engine/rank_plan.h"
#include "ops/features.h"
#include "request/stage_plan.h"
#include "resolve/resolve.h"
#include "session/stage_clock.h"
#include "session/vae_math.h"
#include "stages/denoise_stage.h"
#include "tensor/hold.h"
#include "tensor/peak_watch.h"
#include "tensor/streaming_memory.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// Settles `lora_mode` auto. Merged and added adapters round differently, so the settings of a run must say
// which way was taken: the run can then be repeated and resumed with the same result, whether or not the
// model stays loaded.
void settle_lora_mode(VideoRequest& r, bool keeps) {
  if (!r.loras.empty() && r.lora_mode == "auto") r.lora_mode = keeps ? "runtime" : "merge";
}

}  // namespace

Resolved TextToVideo::resolved(const VideoRequest& request) {
  ++resolved_;
  Resolved r = gpu() ? resolved_for_gpu(request) : resolve(model(), request);
  if (!gpu()) {
    settle_lora_mode(r.request, model_.options().keep_loaded);
    if (r.precision.compute == Compute::bf16)
      if (const auto reason = ops::why_no_bf16()) warn("products stay in float32: {}", reason->text());
  }
  r.graphs = r.graphs && model_.options().graphs && !model_.upload_check();
  return r;
}

Resolved TextToVideo::resolved_for_gpu(const VideoRequest& request) const {
  const GpuMode mode = gpu_mode(request.level, request.dtype.value_or(""), gpu()->info().capability(),
                                request.residual.value_or(""), request.attention, request.math);
  Resolved r = resolve(model(), request, &mode);
  // On a GPU, adding adapters costs less than a hundredth of a step; it needs no time to load and leaves
  // quantised weights as they are. Beside products in 8 bits it costs several hundredths.
  settle_lora_mode(r.request, model_.options().keep_loaded || !in_eight_bits(mode.products));
  // Before sm_80 and in float32 only a plain kernel takes lists, which is slower than attending to all keys.
  const cuda::GpuInfo& info = gpu()->info();
  check(
      !r.sparse || (info.capability() >= 80 && mode.activation != DType::f32), ErrorCode::unsupported,
      "`sparse_attention`: needs compute capability 8.0 or later and bf16 or f16; on {} (compute capability "
      "{}.{}) in {} it would be slower than attention to all keys, so leave it out",
      info.name, info.major, info.minor, dtype_name(mode.activation));
  return r;
}

Prompts TextToVideo::tokenise(const Prepared& prepared, cuda::Gpu* gpu) {
  ++tokenised_;
  const bool own_encoder = !prepared.adapters || prepared.adapters->key(Part::text).empty();
  return model_.prompts().read(prepared.request, prepared.request.precision, gpu, own_encoder);
}

TextToVideo::Prepared TextToVideo::prepare(Resolved request, const std::atomic<bool>* cancel) {
  Prepared out{.request = std::move(request)};
  const Resolved& r = out.request;
  SharedPass shared = plan_ranks(model_, r);
  out.adapters = open_adapters(model(), r.request, model_.options().keep_loaded);
  const auto plan = [&](const std::shared_ptr<cuda::Gpu>& gpu) {
    out.prompts = tokenise(out, gpu.get());
    ++planned_;
    out.vae = vae_products(r.request.vae_math, model().vae_config, r.precision, gpu.get());
    out.plan = plans_.plan({.model = &model_,
                            .gpu = gpu,
                            .request = &r,
                            .prompts = &out.prompts,
                            .vae = out.vae,
                            .adapters = out.adapters.get(),
                            .cancel = cancel});
    put(std::move(shared), out.plan);
    out.plan.optimisations = states_of(r, out.plan, gpu ? &gpu->info() : nullptr);
  };
  if (gpu()) {
    check_arena(model_.options(), r.graphs);
    const SessionPool::Lease lease = sessions_.to_plan();
    plan(lease.session().shared_gpu());
  } else {
    plan(nullptr);
  }
  return out;
}

void TextToVideo::estimate_seconds(Prepared& prepared) {
  // Attention and norms run at a lower rate than the GEMM.
  const double rate = model_.flops_per_second(prepared.request.precision) * 0.8;
  VideoPlan& plan = prepared.plan;
  plan.seconds = 0;
  for (StagePlan& s : plan.stages) {
    s.seconds = s.flops / rate;
    plan.seconds += s.seconds;
  }
}

VideoPlan TextToVideo::plan(const VideoRequest& request) {
  Prepared prepared = prepare(resolved(request));
  estimate_seconds(prepared);
  return prepared.plan;
}

namespace {

// Begins a job in a session, and ends it however the job ends.
class Begun {
 public:
  Begun(Session& session, const Session::Setup& setup) : session_(session) {
    try {
      session.begin(setup);
    } catch (...) {
      session.end(false);
      throw;
    }
  }
  ~Begun() { session_.end(well); }
  Begun(const Begun&) = delete;
  Begun& operator=(const Begun&) = delete;
  bool well = false;

 private:
  Session& session_;
};

// Runs the job itself. Returns how many steps the step cache saved.
int run(const TextToVideo::Prepared& prepared, Session& session, const RunState* resume,
        TalkProgress* progress, ProfileRange& part) {
  const Resolved& r = prepared.request;
  Stream& stream = session.stream();
  nn::ParamStore store({}, stream);
  const MemoryLabel label("latents, text embeddings");
  const Shared shared(r, session.model(), prepared.prompts, store);
  const auto memory = store.keep();
  const Course& course = course_of(r);
  if (resume) check_state(*resume, r, shared, course.state_counts(r, shared));
  part.next("noise", ProfileKind::other);
  NoiseSource noise(r.request);
  make_first_latents(r, resume, shared, noise, stream);
  if (resume && resume->window > 0) upload(resume->motion.data(), shared.motion, stream);
  part.done();
  Job job{.request = r,
          .prompts = prepared.prompts,
          .shared = shared,
          .resume = resume,
          .noise = &noise,
          .progress = progress};
  course.walk(job, session);
  return job.steps_reused;
}

}  // namespace

Resolved TextToVideo::generate(const Prepared& prepared, const VideoCallbacks& given,
                               const RunState* resume) {
  runtime::Crew* const crew = model_.options().crew.get();
  if (!crew) return generate_here(prepared, given, resume);
  return run_in_crew(*crew, given, resume,
                     [&](const VideoCallbacks& callbacks, const RunState* state) {
                       crew->connect(model_.gpu());
                       return generate_here(prepared, callbacks, state);
                     })
      .value_or(prepared.request);
}

Resolved TextToVideo::generate_here(const Prepared& prepared, const VideoCallbacks& given,
                                    const RunState* resume) {
  const VideoPlan& plan = prepared.plan;
  VideoCallbacks callbacks = given;
  std::optional<TalkProgress> progress;
  if (callbacks.progress && course_of(prepared.request).comes_again(prepared.request)) {
    progress.emplace(prepared.request, plan, callbacks.progress);
    callbacks.progress = [&](const Progress& p) { progress->tell(p, computing_seconds()); };
  }
  if (!model_.options().keep_loaded) model_.prompts().release();
  log_topic("plan", "peak {} in Buffers and arenas; requests so far: {} resolved, {} tokenised, {} planned",
            human_bytes(plan.peak_bytes), resolved_.load(), tokenised_.load(), planned_.load());
  const SessionPool::Lease lease = sessions_.to_compute(plan, prepared.request.precision, prepared.vae,
                                                        {callbacks.cancel, callbacks.hold});
  report_offload(plan, model_.options().max_vram > 0);
  Session& session = lease.session();
  std::optional<cuda::EventProfiler> device_times;
  auto* const times = dynamic_cast<DeviceTimes*>(callbacks.profiler);
  if (session.gpu() && times) device_times.emplace(*session.gpu(), *callbacks.profiler, *times);
  Profiler* const profiler = device_times ? &*device_times : callbacks.profiler;
  ProfileRange part(profiler, "prepare", ProfileKind::other);
  Resolved r = prepared.request;
  const int captured = session.captures();
  const PeakWatch watch(session.gpu() ? session.gpu() : model_.memory());
  const uint64_t kept = session.kept_bytes();
  {
    Begun begun(session, {.precision = prepared.request.precision,
                          .without = prepared.request.without,
                          .vae = prepared.vae,
                          .placement = placement_of(plan),
                          .graphs = prepared.request.graphs,
                          .callbacks = &callbacks,
                          .profiler = profiler,
                          .plan = &plan,
                          .adapters = prepared.adapters.get()});
    const WatchedRanks ranks(device_times ? session.devices() : nullptr, callbacks.profiler, times);
    r.steps_reused = run(prepared, session, resume, progress ? &*progress : nullptr, part);
    r.seen_bytes = watch.peak() - watch.before() + kept + session.found_bytes();
    if (!model_.memory()) r.seen_bytes += model().read_bytes();  // which lie in host memory, as in the plan
    begun.well = true;
  }
  captured_ += session.captures() - captured;
  if (device_times) device_times->resolve();
  return r;
}

}  // namespace tachy
