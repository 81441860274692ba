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
#include "pipelines/denoise_stage.h"
#include "pipelines/run_stages.h"
#include "tensor/streaming_memory.h"
#include "tensor/transfer.h"

namespace tachy {
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

}  // namespace

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

void TextToVideo::before_load(const char* part) {
  if (check_) check_->begin(part);
}

void TextToVideo::verify(const char* part, const TensorSource& file, const char* when) {
  if (check_) check_->verify(part, file, when);
}

Stream TextToVideo::stream_on(Arena& arena) {
  Stream s{.arena = &arena, .pool = &pool_, .compute = mode_.compute, .definitions = mode_.reference};
  s.memory = memory();
  if (gpu_) s.gpu = gpu_.get(), s.activation = gpu_mode_.activation, s.residual = gpu_mode_.residual;
  return s;
}

DeviceMemory* TextToVideo::memory() const { return gpu_ ? gpu_.get() : options_.memory.get(); }

TextToVideo::Prompts TextToVideo::tokenize(const ResolvedRequest& r) {
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
  Stream stream{.arena = &measure, .pool = &pool_, .compute = mode_.compute, .definitions = mode_.reference};
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

ResolvedRequest TextToVideo::resolved(const VideoRequest& request) const {
  if (!gpu_) {
    ResolvedRequest r = resolve(model_, request);
    if (parse_compute(*r.request.dtype) == Compute::bf16)
      if (const auto reason = ops::why_no_bf16()) warn("products stay in float32: {}", reason->text());
    return r;
  }
  // The level's way of computing is the GPU's.
  VideoRequest given = request;
  const GpuMode mode =
      gpu_mode(given.level, given.dtype.value_or(""), gpu_->info().capability(), given.residual.value_or(""));
  given.dtype.reset(), given.residual.reset();
  given.step_cache = given.step_cache.value_or(mode.step_cache);
  given.level = "safe";
  ResolvedRequest r = resolve(model_, given);
  r.request.level = request.level, r.request.dtype = dtype_name(mode.activation);
  r.request.residual = dtype_name(mode.residual);
  return r;
}

ResolvedRequest TextToVideo::prepare(const VideoRequest& request) {
  ResolvedRequest r = resolved(request);
  Mode wanted = gpu_ ? Mode() : mode_of(r.request);
  wanted.step_cache = 0;  // changes no weight
  const GpuMode before = gpu_mode_;
  if (gpu_)
    gpu_mode_ = gpu_mode(r.request.level, *r.request.dtype, gpu_->info().capability(), *r.request.residual);
  if (wanted == mode_ && gpu_mode_.activation == before.activation) return r;
  mode_ = wanted, flops_per_second_ = 0;
  text_ = {}, dit_ = {}, vae_ = {}, encoder_ = {};
  return r;
}

VideoPlan TextToVideo::plan(const VideoRequest& request) {
  const ResolvedRequest r = prepare(request);
  VideoPlan plan = make_plan(r, tokenize(r));
  const double rate = measured_flops_per_second() * 0.8;  // attention and norms run below the GEMM's rate
  for (StagePlan& s : plan.stages) {
    s.seconds = s.flops / rate;
    plan.seconds += s.seconds;
  }
  return plan;
}

void TextToVideo::run_text(const ResolvedRequest& r, const Prompts& prompts, const Tensor& text,
                           const Tensor& negative, const VideoPlan& plan, const VideoCallbacks& callbacks,
                           Stream& stream) {
  StageClock clock(&callbacks, "text", r.guided ? 2 : 1);
  ProfileRange part(stream.profiler, "load text encoder", ProfileKind::load);
  if (prompts.encodes(r.guided) && !text_.model) {
    if (text_cache_) text_fingerprint_ = encoder_fingerprint(model_);
    before_load("text encoder");
    text_ = load_text(model_, stream, stage_plan(plan, "text").streamed);
    verify("text encoder", *model_.text_encoder, "after loading");
  }
  part.next("text encoder", ProfileKind::group);
  const auto embed = [&](const std::vector<int64_t>& ids, const std::vector<float>& known,
                         const std::optional<TextCache::Key>& key, const Tensor& out) {
    if (!known.empty()) return upload(known.data(), out, stream);
    encode_text(*text_.model, ids, out, stream);
    // Weights that changed since the key was made, or while the encoder used them, are not what it names.
    if (!key || key->encoder != text_fingerprint_ || key->encoder != encoder_fingerprint(model_)) return;
    std::vector<float> values(static_cast<size_t>(out.numel()));
    download(out, values.data(), stream);
    text_cache_->keep(*key, values);
  };
  embed(prompts.positive, prompts.positive_text, prompts.positive_key, text);
  clock.done(1);
  if (r.guided) {
    embed(prompts.negative, prompts.negative_text, prompts.negative_key, negative);
    clock.done(2);
  }
  if (text_.model) verify("text encoder", *model_.text_encoder, "after the last pass");
  if (!plan.keeps) text_ = {};
}

ResolvedRequest TextToVideo::generate(const VideoRequest& request, const VideoCallbacks& callbacks,
                                      const RunState* resume) {
  // On a GPU ranges are timed by its clock, too.
  std::optional<cuda::EventProfiler> device_times;
  auto* const times = dynamic_cast<DeviceTimes*>(callbacks.profiler);
  if (gpu_ && times) device_times.emplace(*gpu_, *callbacks.profiler, *times);
  Profiler* const profiler = device_times ? &*device_times : callbacks.profiler;
  ProfileRange part(profiler, "prepare", ProfileKind::other);
  ResolvedRequest r = prepare(request);
  const Prompts prompts = tokenize(r);
  if (!options_.keep_loaded) tokenizer_.reset();
  const VideoPlan plan = make_plan(r, prompts);
  log_topic("plan", "peak {} in Buffers and arenas", human_bytes(plan.peak_bytes));
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
  stream.cancel = callbacks.cancel;
  stream.profiler = profiler;
  nn::ParamStore shared_store({}, stream);
  const MemoryLabel label(stream.memory, "latents, text embeddings");
  const Shared shared(r, model_, prompts.positive.size(), prompts.negative.size(), shared_store);
  const auto memory = shared_store.keep();
  const auto with_arena = [&](const char* name, auto&& body) { in_stage(name, plan, stream, none, body); };

  const Sampler sampler(sampler_config(r.request));
  std::vector<float> values(static_cast<size_t>(shared.latents.numel()));
  if (resume) check_state(*resume, sampler, *r.request.step_cache > 0, values.size());
  const bool denoised = resume && resume->step == sampler.steps();  // only frames are left to make

  part.done();
  if (!denoised)
    with_arena("text", [&] { run_text(r, prompts, shared.text, shared.negative, plan, callbacks, stream); });
  if (r.pictured && !denoised)
    with_arena("image", [&] {
      StageClock clock(&callbacks, "image", 1);
      part.next("load vae encoder", ProfileKind::load);
      if (!encoder_.model) {
        before_load("vae encoder");
        encoder_ = load_vae_encoder(model_, stream);
        verify("vae encoder", *model_.vae, "after loading");
      }
      part.next("encode image", ProfileKind::group);
      encode_condition(model_, *encoder_.model, r, shared.condition, stream);
      clock.done(1);
      if (!plan.keeps) encoder_ = {};
    });

  part.next("noise", ProfileKind::other);
  // One generator a run, as in PyTorch: the starting noise first, then what stochastic samplers draw.
  NoiseSource noise(r.request);
  if (resume) {
    std::copy(resume->latents.begin(), resume->latents.end(), values.begin());
    noise.restore(resume->generator);
  } else if (r.request.init_latents.empty()) {
    noise.draw(values);
  } else {
    std::copy(r.request.init_latents.begin(), r.request.init_latents.end(), values.begin());
  }
  upload(values.data(), shared.latents, stream);

  if (!denoised)
    with_arena("denoise", [&] {
      part.next("load transformer", ProfileKind::load);
      if (!dit_.model) {
        before_load("transformer");
        StageClock clock(&callbacks, "load", model_.dit.num_layers);
        dit_ = load_dit(model_, options_.weights, stream, stage_plan(plan, "denoise").streamed,
                        [&](int64_t done, int64_t) { clock.done(done); });
        verify("transformer", *model_.transformer, "after loading");
      }
      part.next("denoise", ProfileKind::group);
      denoise(*dit_.model,
              {.model = &model_,
               .request = &r,
               .sampler = &sampler,
               .text = shared.text,
               .negative = shared.negative,
               .latents = shared.latents,
               .condition = shared.condition,
               .image_embeds = image_embeds(model_, r),
               .noise = &noise,
               .callbacks = &callbacks,
               .graphs = options_.graphs && gpu_mode_.graphs && !check_,
               .resume = resume,
               .reused = &r.steps_reused},
              stream);
      verify("transformer", *model_.transformer, "after the last step");
      if (!plan.keeps) dit_ = {};
    });
  if (callbacks.latents) {
    download(shared.latents, values.data(), stream);
    callbacks.latents(values, shared.latents.shape());
  }

  with_arena("decode", [&] {
    part.next("load vae", ProfileKind::load);
    if (!vae_.model) {
      before_load("vae decoder");
      vae_ = load_vae(model_, stream);
      verify("vae decoder", *model_.vae, "after loading");
    }
    part.next("decode", ProfileKind::group);
    decode(*vae_.model, shared.latents, &callbacks, stream);
    if (!plan.keeps) vae_ = {};
  });
  part.done();
  if (device_times) device_times->resolve();
  return r;
}

}  // namespace tachy
