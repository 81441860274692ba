#include "pipelines/text_to_video.h"

#include <algorithm>
#include <cmath>

#include "base/env.h"
#include "base/log.h"
#include "base/memory_room.h"
#include "cuda/event_profiler.h"
#include "cuda/gpu_facts.h"
#include "cuda/open_device.h"
#include "ops/elementwise/elementwise.h"
#include "ops/features.h"
#include "ops/gemm/gemm.h"
#include "pipelines/step_cache.h"
#include "tensor/streaming_memory.h"
#include "tensor/transfer.h"

namespace tachy {

TextToVideo::TextToVideo(ModelBundle model, Options options)
    : model_(std::move(model)),
      options_(options),
      pool_(options.threads > 0 ? options.threads : available_processors()) {
  const MemoryRoom room = memory_room(pool_.threads());
  check(room.bytes >= kLibraryBytes, ErrorCode::out_of_memory, "any run needs {} of memory, but {} leaves {}",
        human_bytes(kLibraryBytes), room.limit, human_bytes(room.bytes));
  if (!options_.text_cache.empty()) text_cache_.emplace(options_.text_cache);
  gpu_ = cuda::open_device(options_.device);
  if (!options_.verify_upload) return;
  require(memory(),
          "--verify-upload: it compares weights on a GPU with their files, and this run is on the CPU; leave "
          "it out, or choose a GPU with --device cuda");
  check_ = std::make_unique<nn::UploadCheck>(*StreamingMemory::of(memory()), pool_);
}

Stream TextToVideo::stream_on(Arena& arena) {
  return {.arena = &arena, .pool = &pool_, .gpu = gpu_.get(), .memory = memory(), .precision = precision()};
}

Precision TextToVideo::precision() const {
  if (gpu_) return {.activation = gpu_mode_.activation, .residual = gpu_mode_.residual};
  return {.compute = mode_.compute, .definitions = mode_.reference};
}

DeviceMemory* TextToVideo::memory() const { return gpu_ ? gpu_.get() : options_.memory.get(); }

TextToVideo::Prompts TextToVideo::tokenize(const ResolvedRequest& r) {
  ++counters_.tokenised;
  if (!tokenizer_) tokenizer_ = Tokenizer::open(model_.files.tokenizer);
  Prompts p;
  const auto ids = [&](const char* option, const std::string& text) {
    return naming(option, [&] { return prompt_ids(*tokenizer_, text, r.request.max_text_tokens); });
  };
  p.positive = ids("--prompt", r.request.prompt);
  if (r.guided) p.negative = ids("--negative-prompt", *r.request.negative_prompt);
  if (!text_cache_) return p;
  p.positive_key = text_key(p.positive);
  p.positive_text = text_cache_->find(*p.positive_key).value_or(std::vector<float>());
  if (!r.guided) return p;
  p.negative_key = text_key(p.negative);
  p.negative_text = text_cache_->find(*p.negative_key).value_or(std::vector<float>());
  return p;
}

// What an embedding's bits depend on.
TextCache::Key TextToVideo::text_key(const std::vector<int64_t>& ids) const {
  std::string how = program_identity() + "; " + ops::describe_arithmetic();
  how += fmt::format("; products {}{}", mode_.compute == Compute::bf16 ? "bf16" : "f32",
                     mode_.reference ? ", definitions" : "");
  if (gpu_) {
    const cuda::GpuInfo& g = gpu_->info();
    how += fmt::format("; {} {}, driver {}, CUDA {}, activations {}", g.name, g.capability(), g.driver,
                       g.runtime, dtype_name(gpu_mode_.activation));
    for (const auto& [name, version] : cuda::vendor_libraries(*gpu_))
      how += fmt::format("; {} {}", name, version);
  }
  return {encoder_fingerprint(model_), how, ids, model_.text.d_model};
}

double TextToVideo::measured_flops_per_second() {
  if (flops_per_second_ > 0) return flops_per_second_;
  if (gpu_) {  // a rough figure: the multiprocessors at 1.7 GHz and three quarters of the products' rate
    const double per_clock = gpu_mode_.activation == DType::f32 ? 256 : gpu_->info().major >= 9 ? 4096 : 2048;
    return flops_per_second_ = 0.75 * 1.7e9 * per_clock * gpu_->info().multiprocessors;
  }
  constexpr int64_t kSize = 512;
  Arena measure;
  Stream stream{.arena = &measure, .pool = &pool_, .precision = precision()};
  const Buffer data(kSize * kSize * 3 * sizeof(float)),
      packed_data(static_cast<size_t>(ops::packed_gemm_bytes(kSize, kSize, mode_.compute)));
  std::fill_n(static_cast<float*>(data.data()), kSize * kSize * 3, 0.5f);
  const Tensor all = data.tensor(DType::f32, {3, kSize, kSize});
  ops::GemmArgs args{.x = all.select(0, 0), .weight = all.select(0, 1), .y = all.select(0, 2)};
  args.packed = packed_data.tensor(DType::u8, {static_cast<int64_t>(packed_data.size())});
  ops::pack_gemm_weight(args.weight, args.packed, stream);
  ops::gemm(args, stream);
  Arena arena(measure.peak());
  stream.arena = &arena;
  ops::pack_gemm_weight(args.weight, args.packed, stream);
  ops::gemm(args, stream);  // warm
  const double start = monotonic_seconds();
  int runs = 0;
  do ops::gemm(args, stream), ++runs;
  while (monotonic_seconds() - start < 0.03);
  flops_per_second_ = 2.0 * kSize * kSize * kSize * runs / (monotonic_seconds() - start);
  return flops_per_second_;
}

ResolvedRequest TextToVideo::resolved(const VideoRequest& request) {
  ++counters_.resolved;
  if (!gpu_) {
    ResolvedRequest r = resolve(model_, request);
    if (parse_compute(*r.request.dtype) == Compute::bf16)
      if (const auto reason = ops::why_no_bf16()) warn("products stay in float32: {}", reason->text());
    return r;
  }
  const GpuMode mode = gpu_mode(request.level, request.dtype.value_or(""), gpu_->info().capability(),
                                request.residual.value_or(""));
  return resolve(model_, request, &mode);
}

void TextToVideo::adopt(const Mode& mode, const GpuMode& gpu_mode) {
  const bool same = mode == mode_ && gpu_mode.activation == gpu_mode_.activation;
  mode_ = mode, gpu_mode_ = gpu_mode;
  if (same) return;
  flops_per_second_ = 0;
  loaded_ = {};
}

TextToVideo::Prepared TextToVideo::prepare(ResolvedRequest request) {
  Prepared out{.request = std::move(request)};
  const VideoRequest& r = out.request.request;
  if (gpu_)
    out.gpu_mode = tachy::gpu_mode(r.level, *r.dtype, gpu_->info().capability(), *r.residual);
  else
    out.mode = mode_of(r);
  out.mode.step_cache = 0;  // changes no weight
  adopt(out.mode, out.gpu_mode);
  out.prompts = tokenize(out.request);
  out.plan = make_plan(out.request, out.prompts);
  return out;
}

void TextToVideo::estimate_seconds(VideoPlan& plan) {
  const double rate = measured_flops_per_second() * 0.8;  // attention and norms run below the GEMM's rate
  plan.seconds = 0;
  for (StagePlan& s : plan.stages) {
    s.seconds = s.flops / rate;
    plan.seconds += s.seconds;
  }
}

VideoPlan TextToVideo::plan(const VideoRequest& request) {
  VideoPlan plan = prepare(resolved(request)).plan;
  estimate_seconds(plan);
  return plan;
}

namespace {

// A state read from a file may be anything: throws corrupt unless it fits the request.
void check_state(const RunState& s, const Sampler& sampler, bool step_cache, size_t values) {
  const auto finite = [](const std::vector<float>& v) {
    return std::all_of(v.begin(), v.end(), [](float x) { return std::isfinite(x); });
  };
  check(s.step >= 1 && s.step <= sampler.steps(), ErrorCode::corrupt, "resume: step {} of {}", s.step,
        sampler.steps());
  check(s.latents.size() == values && finite(s.latents), ErrorCode::corrupt,
        "resume: expected {} finite latents, got {} values", values, s.latents.size());
  const int tensors = sampler.state_tensors() + (step_cache ? StepCache::kStateTensors : 0);
  check(s.solver.size() == static_cast<size_t>(tensors), ErrorCode::corrupt,
        "resume: the sampler keeps {} tensors, got {}", tensors, s.solver.size());
  for (const auto& tensor : s.solver)
    check(tensor.size() == values && finite(tensor), ErrorCode::corrupt,
          "resume: expected {} finite values of the sampler, got {}", values, tensor.size());
}

// Where a run begins: at the state that it goes on from, at given latents, or at noise. There is one generator a
// run, as in PyTorch: the starting noise first, then what stochastic samplers draw.
std::vector<float> first_latents(const VideoRequest& r, const RunState* resume, size_t count,
                                 NoiseSource& noise) {
  std::vector<float> values(count);
  if (resume) {
    noise.restore(resume->generator);
    return resume->latents;
  }
  if (!r.init_latents.empty()) return r.init_latents;
  noise.draw(values);
  return values;
}

}  // namespace

ResolvedRequest TextToVideo::generate(const Prepared& prepared, const VideoCallbacks& callbacks,
                                      const RunState* resume) {
  // On a GPU ranges are timed by its clock, too.
  std::optional<cuda::EventProfiler> device_times;
  auto* const times = dynamic_cast<DeviceTimes*>(callbacks.profiler);
  if (gpu_ && times) device_times.emplace(*gpu_, *callbacks.profiler, *times);
  Profiler* const profiler = device_times ? &*device_times : callbacks.profiler;
  ProfileRange part(profiler, "prepare", ProfileKind::other);
  ResolvedRequest r = prepared.request;
  const Prompts& prompts = prepared.prompts;
  const VideoPlan& plan = prepared.plan;
  adopt(prepared.mode, prepared.gpu_mode);
  if (!options_.keep_loaded) tokenizer_.reset();
  log_topic("plan", "peak {} in Buffers and arenas; requests so far: {} resolved, {} tokenised, {} planned",
            human_bytes(plan.peak_bytes), counters_.resolved, counters_.tokenised, counters_.planned);
  check_memory(plan);
  release_unless(plan);
  report_offload(plan, options_.max_vram > 0);
  struct Release {  // also when the run fails
    TextToVideo& pipeline;
    const VideoPlan& plan;
    ~Release() { pipeline.release_unless(plan); }
  } const release{*this, plan};

  Arena none(0);  // no op runs between the stages
  Stream stream = stream_on(none);
  stream.hooks.cancel = callbacks.cancel;
  stream.hooks.profiler = profiler;
  nn::ParamStore shared_store({}, stream);
  const MemoryLabel label(stream.memory, "latents, text embeddings");
  const Shared shared(r, model_, prompts.positive.size(), prompts.negative.size(), shared_store);
  const auto memory = shared_store.keep();
  const auto count = static_cast<size_t>(shared.latents.numel());
  const Sampler sampler(sampler_config(r.request));
  if (resume) check_state(*resume, sampler, *r.request.step_cache > 0, count);

  part.next("noise", ProfileKind::other);
  NoiseSource noise(r.request);
  upload(first_latents(r.request, resume, count, noise).data(), shared.latents, stream);
  part.done();
  Walk walk{.request = r,
            .prompts = prompts,
            .shared = shared,
            .placement = {.text = stage_plan(plan, "text").streamed,
                          .denoise = stage_plan(plan, "denoise").streamed,
                          .keeps = plan.keeps},
            .loaded = loaded_,
            .callbacks = &callbacks,
            .resume = resume,
            .noise = &noise};
  const bool denoised = resume && resume->step == sampler.steps();  // only frames are left to make
  for (const Stage& stage : stages(r, prompts)) {
    const bool last = stage.run == &TextToVideo::decode_stage;
    if (denoised && !last) continue;
    if (last && callbacks.latents) {
      std::vector<float> values(count);
      download(shared.latents, values.data(), stream);
      callbacks.latents(values, shared.latents.shape());
    }
    in_stage(stage.name, plan, stream, none, [&] { (this->*stage.run)(walk, stream); });
  }
  r.steps_reused = walk.steps_reused;
  if (device_times) device_times->resolve();
  return r;
}

}  // namespace tachy
