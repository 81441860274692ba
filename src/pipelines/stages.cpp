#include "pipelines/stages.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/memory_room.h"
#include "ops/elementwise/elementwise.h"
#include "pipelines/step_cache.h"
#include "runtime/step_graph.h"
#include "tensor/transfer.h"
#include "text/clean_prompt.h"
#include "text/tokenizer.h"

namespace tachy {
namespace {

// Packing saves the widening of every step for the price of a copy. Small models are packed always, others
// where the copy takes no more than a third of the memory at hand; judged once a process, so that a plan and
// its run agree.
constexpr uint64_t kPackAlwaysBytes = uint64_t{1} << 30;

bool packs_by_default(uint64_t bytes) {
  static const uint64_t room = memory_room().bytes;
  return bytes <= std::max(kPackAlwaysBytes, room == UINT64_MAX ? 0 : room / 3);
}

uint64_t float32_bytes(const TensorSource& source) {
  uint64_t total = 0;
  for (const auto& entry : source.entries()) {
    uint64_t count = 4;
    for (int64_t d : entry.dims) count *= static_cast<uint64_t>(d);
    total += count;
  }
  return total;
}

Tensor slot_tensor(Slot slot, const Tensor& latents, const Tensor& prediction, const Tensor& noise,
                   const std::vector<Tensor>& state) {
  switch (slot) {
    case Slot::latent:
      return latents;
    case Slot::prediction:
      return prediction;
    case Slot::noise:
      return noise;
    default:
      return state.at(static_cast<size_t>(static_cast<int>(slot) - static_cast<int>(Slot::state)));
  }
}

}  // namespace

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

StageClock::StageClock(const VideoCallbacks* callbacks, std::string stage, int64_t total, int64_t already)
    : callbacks_(callbacks),
      stage_(std::move(stage)),
      total_(total),
      already_(already),
      start_(monotonic_seconds()) {
  done(already);
}

void StageClock::done(int64_t count) {
  if (!callbacks_ || !callbacks_->progress) return;
  const double elapsed = monotonic_seconds() - start_;
  const double eta =
      count > already_ ? elapsed / static_cast<double>(count - already_) * static_cast<double>(total_ - count)
                       : -1;
  callbacks_->progress({stage_, count, total_, elapsed, eta});
}

std::vector<int64_t> prompt_ids(const Tokenizer& tokenizer, const std::string& prompt, int max_tokens) {
  TokenIds tokens = encode_padded(tokenizer, clean_prompt(prompt), max_tokens);
  tokens.ids.resize(static_cast<size_t>(tokens.length()));
  return tokens.ids;
}

namespace {

BlockPlan block_plan(const nn::ParamStore& store, int64_t streamed) {
  return {store.blocks(), streamed, store.block_bytes(), store.host_bytes()};
}

}  // namespace

LoadedText load_text(const ModelBundle& model, bool plan_only, Stream& stream, int64_t streamed) {
  model.text_encoder->check_files();
  // A prompt is encoded once: packing its weights first would only add a copy.
  nn::ParamStore store({.plan_only = plan_only, .pack_weights = false, .streamed = streamed}, stream);
  LoadedText out;
  out.model = load_component(
      model.text_encoder, "text encoder", {"encoder.embed_tokens."},
      [&](const Scope& scope) { return std::make_unique<Umt5Encoder>(scope, model.text, store); });
  out.bytes = store.bytes(), out.blocks = block_plan(store, streamed);
  out.memory = store.keep();
  return out;
}

LoadedDit load_dit(const ModelBundle& model, WeightMode mode, bool plan_only, Stream& stream,
                   int64_t streamed, const LoadProgress& progress) {
  model.transformer->check_files();
  const bool pack = mode == WeightMode::packed ||
                    (mode == WeightMode::automatic && packs_by_default(float32_bytes(*model.transformer)));
  nn::ParamStore store(
      {.plan_only = plan_only, .pack_weights = pack, .streamed = streamed, .progress = progress}, stream);
  LoadedDit out;
  out.model = load_component(model.transformer, "transformer", {}, [&](const Scope& scope) {
    return std::make_unique<WanDit>(scope, model.dit, store);
  });
  out.bytes = store.bytes(), out.blocks = block_plan(store, streamed);
  out.memory = store.keep();
  return out;
}

LoadedVae load_vae(const ModelBundle& model, bool plan_only, Stream& stream) {
  model.vae->check_files();
  LoadedVae out;
  out.model = load_component(model.vae, "vae", {"encoder.", "quant_conv."}, [&](const Scope& scope) {
    return std::make_unique<VaeDecoder>(
        scope, model.vae_config, VaeDecoderOptions{.normalised = true, .plan_only = plan_only}, stream);
  });
  out.bytes = out.model->buffer_bytes();
  return out;
}

SamplerConfig sampler_config(const VideoRequest& r) {
  for (const FewStepList& list : few_step_lists())
    if (list.name == *r.sampler) return list.config;
  SamplerConfig config;
  config.kind = parse_sampler(*r.sampler);
  config.grid = parse_grid(*r.grid);
  config.steps = *r.steps;
  config.shift = *r.shift;
  return config;
}

void encode_text(const Umt5Encoder& model, std::span<const int64_t> ids, const Tensor& text, Stream& stream) {
  const auto count = static_cast<int64_t>(ids.size());
  const Tensor input(const_cast<int64_t*>(ids.data()), DType::i64, {1, count});  // only read
  model.forward(input, {}, text.view({1, count, text.dim(1)}), stream);
  check(ops::all_finite(text, stream), ErrorCode::numerical,
        "text encoder: the result holds NaN or Inf: its weights are damaged");
}

namespace {

// Copies `frame` [z, 1, h, w] over latent frame 0 of x [z, T, h, w].
void put_first_frame(const Tensor& frame, const Tensor& x, Stream& stream) {
  ops::copy({.x = frame, .y = x.slice(1, 0, 1)}, stream);
}

// Tokens of latent frame 0 point at row 1 (timestep 0), all others at row 0.
Tensor first_frame_rows(const WanGrid& grid, int64_t branches, nn::ParamStore& store) {
  std::vector<int32_t> row(static_cast<size_t>(branches * grid.tokens()));
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = static_cast<int64_t>(i) % grid.tokens() < grid.rows * grid.columns ? 1 : 0;
  return store.uploaded(row.data(), DType::i32, {static_cast<int64_t>(row.size())});
}

void report_state(const DenoiseInput& in, int64_t finished, const std::vector<Tensor>& solver,
                  const Stream& stream) {
  if (!in.callbacks || !in.callbacks->state) return;
  std::vector<std::vector<float>> copies;  // of what lies on a GPU
  copies.reserve(solver.size() + 1);
  const auto values = [&](const Tensor& t) {
    const auto count = static_cast<size_t>(t.numel());
    if (!stream.gpu) return std::span<const float>(t.as<float>(), count);
    download(t, copies.emplace_back(count).data(), stream);
    return std::span<const float>(copies.back());
  };
  RunStateView view{finished, in.sampler->steps(), values(in.latents), {}, in.noise->save()};
  for (const Tensor& t : solver) view.solver.push_back(values(t));
  in.callbacks->state(view);
}

}  // namespace

uint64_t denoise(const WanDit& model, const DenoiseInput& in, bool plan_only, Stream& stream) {
  const ResolvedRequest& r = *in.request;
  const int64_t z = r.latent_channels, frames = r.latent_frames, h = r.latent_height, w = r.latent_width;
  const int64_t branches = in.negative.defined() ? 2 : 1;
  nn::ParamStore store({.plan_only = plan_only}, stream);

  ProfileRange part(stream.profiler, "hoisted", ProfileKind::group);
  // Everything that no step changes is made before the
  // loop: text keys and values, rope tables, the time path.
  std::vector<WanContext> contexts;
  contexts.push_back(model.make_context(in.text, r.request.max_text_tokens, in.image_embeds, store));
  if (branches == 2) {  // both branches see the same picture
    contexts.push_back(model.make_context(in.negative, r.request.max_text_tokens, {}, store));
    contexts[1].image_k = contexts[0].image_k, contexts[1].image_v = contexts[0].image_v;
  }
  const WanGrid grid = model.make_grid(frames, h, w, store);
  const Schedule& schedule = in.sampler->schedule();
  std::optional<Sinusoid> sinusoid;
  if (r.request.sinusoid) sinusoid = parse_sinusoid(*r.request.sinusoid);
  const bool fixed_frame = in.condition.defined() && in.model->image_input == ImageInput::first_frame;
  // With a fixed first frame each step has two distinct timesteps: its own, and 0.
  std::vector<double> timesteps;
  for (const double t : schedule.timesteps) {
    timesteps.push_back(t);
    if (fixed_frame) timesteps.push_back(0);
  }
  const int64_t distinct = fixed_frame ? 2 : 1;
  const WanTimes times = model.make_times(timesteps, store, sinusoid);
  const Tensor row = fixed_frame ? first_frame_rows(grid, branches, store) : Tensor();

  const int64_t extra = in.condition.defined() && !fixed_frame ? in.condition.dim(0) : 0;
  const Tensor input = store.allocate(DType::f32, {branches, z + extra, frames, h, w});
  const Tensor velocity = store.allocate(DType::f32, {branches, z, frames, h, w});
  const Tensor noise = store.allocate(DType::f32, {z, frames, h, w});
  std::vector<Tensor> state;
  for (int i = 0; i < in.sampler->state_tensors(); ++i)
    state.push_back(store.allocate(DType::f32, {z, frames, h, w}));
  // A step's time path where a captured step reads it.
  const WanTimes fixed_times = stream.gpu
                                   ? WanTimes{store.allocate(DType::f32, {distinct, times.embedding.dim(1)}),
                                              store.allocate(DType::f32, {distinct, times.projection.dim(1)})}
                                   : WanTimes();
  if (!plan_only && extra > 0)
    for (int64_t b = 0; b < branches; ++b)
      copy_bytes(in.condition, input.select(0, b).slice(0, z, z + extra), stream);
  StepCache cache(in.request->request.step_cache.value_or(0), in.latents, store);
  std::vector<Tensor> kept = state;  // what a resumed run needs
  for (const Tensor& t : cache.state()) kept.push_back(t);
  for (size_t i = 0; i < kept.size() && !plan_only; ++i)
    if (in.resume)
      upload(in.resume->solver.at(i).data(), kept[i], stream);
    else
      zero(kept[i], stream);

  const float guidance = static_cast<float>(*r.request.guidance);
  const Tensor prediction = velocity.select(0, 0);
  // In a measure run every step is alike: one tells the peak; its work is counted for all.
  const int steps = in.sampler->steps(), run = plan_only ? 1 : steps;
  const int first = in.resume ? static_cast<int>(in.resume->step) : 0;
  uint64_t before = stream.flops ? *stream.flops : 0;
  std::optional<StageClock> clock;
  if (!plan_only) clock.emplace(in.callbacks, "denoise", steps, first);
  runtime::StepGraph graph(in.graphs && !stream.profiler);  // ranges end where their work does
  std::vector<float> drawn;
  for (int i = first; i < run; ++i) {
    stream.throw_if_cancelled();
    part.next("step", ProfileKind::group, i);
    ProfileRange inner(stream.profiler);
    in.model->transformer->check_files();  // the step reads its weights where they lie in the file
    const bool reused = !plan_only && cache.reuse(in.latents, i, steps, prediction);
    if (reused && in.reused) ++*in.reused;
    if (!plan_only && !reused)
      for (int64_t b = 0; b < branches; ++b) {
        copy_bytes(in.latents, input.select(0, b).slice(0, 0, z), stream);
        if (fixed_frame) put_first_frame(in.condition, input.select(0, b), stream);
      }
    WanInput forward{.latents = input, .grid = &grid, .row = row};
    const int64_t begin = i * distinct, end = begin + distinct;
    forward.times = {times.embedding.slice(0, begin, end), times.projection.slice(0, begin, end)};
    for (const WanContext& context : contexts) forward.contexts.push_back(&context);
    if (stream.gpu && !plan_only) {
      copy_bytes(forward.times.embedding, fixed_times.embedding, stream);
      copy_bytes(forward.times.projection, fixed_times.projection, stream);
      forward.times = fixed_times;
    }
    if (!reused) {
      inner.next("transformer", ProfileKind::group);
      graph.run(stream, [&] { model.forward(forward, velocity, stream); });
    }
    inner.next(reused ? "sampler (model output reused)" : "sampler", ProfileKind::elementwise);
    check(ops::all_finite(velocity, stream), ErrorCode::numerical,
          "denoise: the transformer's output holds NaN or Inf at step {} of {}", i + 1, steps);

    if (branches == 2 && !reused) {  // u + g(c − u)
      ops::LincombArgs guide{.count = 2, .out = prediction};
      guide.terms[0] = {velocity.select(0, 1), 1 - guidance};
      guide.terms[1] = {velocity.select(0, 0), guidance};
      ops::lincomb(guide, stream);
    }
    if (!plan_only && !reused) cache.computed(in.latents, prediction);
    if (!plan_only && in.sampler->needs_noise(i)) {
      drawn.resize(static_cast<size_t>(noise.numel()));
      in.noise->draw(drawn);
      upload(drawn.data(), noise, stream);
    }
    if (!plan_only && in.callbacks && in.callbacks->preview) {
      // A tensor that this step no longer reads: the next step fills the input anew.
      ops::LincombArgs denoised{.count = 2, .out = input.select(0, 0).slice(0, 0, z)};
      denoised.terms[0] = {in.latents, 1};
      denoised.terms[1] = {prediction, in.sampler->denoised_coefficient(i)};
      ops::lincomb(denoised, stream);
      if (fixed_frame) put_first_frame(in.condition, denoised.out, stream);
      std::vector<float> clean(static_cast<size_t>(denoised.out.numel()));
      download(denoised.out, clean.data(), stream);
      const Preview picture =
          latent_preview(Tensor(clean.data(), DType::f32, denoised.out.shape()), in.model->preview_factors);
      in.callbacks->preview({picture.rgb, picture.width, picture.height}, i);
    }
    for (const Assignment& a : in.sampler->update(i)) {
      ops::LincombArgs sum{.count = static_cast<int>(a.terms.size()),
                           .out = slot_tensor(a.target, in.latents, prediction, noise, state)};
      for (size_t k = 0; k < a.terms.size(); ++k)
        sum.terms[k] = {slot_tensor(a.terms[k].slot, in.latents, prediction, noise, state),
                        a.terms[k].coefficient};
      ops::lincomb(sum, stream);
    }
    if (plan_only) break;
    if (fixed_frame && i + 1 == steps) put_first_frame(in.condition, in.latents, stream);
    report_state(in, i + 1, kept, stream);
    clock->done(i + 1);
  }
  if (plan_only && stream.flops) *stream.flops += (*stream.flops - before) * static_cast<uint64_t>(steps - 1);
  return store.bytes();
}

}  // namespace tachy
