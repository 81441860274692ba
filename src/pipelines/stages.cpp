#include "pipelines/stages.h"

#include <algorithm>
#include <chrono>

#include "base/memory_room.h"
#include "ops/elementwise/elementwise.h"
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

LoadedText load_text(const ModelBundle& model, Stream& stream, int64_t streamed) {
  model.text_encoder->check_files();
  // A prompt is encoded once: packing its weights first would only add a copy.
  nn::ParamStore store({.plan_only = stream.measuring(), .pack_weights = false, .streamed = streamed},
                       stream);
  LoadedText out;
  out.model = load_component(
      model.text_encoder, "text encoder", {"encoder.embed_tokens."},
      [&](const Scope& scope) { return std::make_unique<Umt5Encoder>(scope, model.text, store); });
  out.bytes = store.bytes(), out.blocks = block_plan(store, streamed);
  out.memory = store.keep();
  return out;
}

LoadedDit load_dit(const ModelBundle& model, int part, WeightMode mode, Stream& stream, int64_t streamed,
                   const LoadProgress& progress) {
  const auto& weights = model.transformer_of(part);
  weights->check_files();
  const bool pack = mode == WeightMode::packed ||
                    (mode == WeightMode::automatic && packs_by_default(float32_bytes(*weights)));
  nn::ParamStore store(
      {.plan_only = stream.measuring(), .pack_weights = pack, .streamed = streamed, .progress = progress},
      stream);
  LoadedDit out;
  out.model = load_component(weights, ModelBundle::transformer_name(part), {}, [&](const Scope& scope) {
    return std::make_unique<WanDit>(scope, model.dit, store);
  });
  out.bytes = store.bytes(), out.blocks = block_plan(store, streamed);
  out.memory = store.keep();
  return out;
}

LoadedVae load_vae(const ModelBundle& model, Stream& stream) {
  model.vae->check_files();
  LoadedVae out;
  out.model = load_component(model.vae, "vae", {"encoder.", "quant_conv."}, [&](const Scope& scope) {
    return std::make_unique<VaeDecoder>(
        scope, model.vae_config, VaeDecoderOptions{.normalised = true, .plan_only = stream.measuring()},
        stream);
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

}  // namespace tachy
