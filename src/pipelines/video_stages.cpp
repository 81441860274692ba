// The stages of a generation: text, image (with a picture), denoise, decode. Each runs with a measuring arena, where it
// loads nothing, computes nothing and tells what it would hold, and for real.
#include "base/env.h"
#include "pipelines/denoise_stage.h"
#include "pipelines/text_to_video.h"
#include "tensor/transfer.h"

namespace tachy {

std::vector<TextToVideo::Stage> TextToVideo::stages(const ResolvedRequest& r, const Prompts& prompts) const {
  // What the text cache holds needs no encoder.
  const uint64_t text = prompts.encodes(r.guided) ? model_.text_encoder->mapped_bytes() : 0;
  std::vector<Stage> out{{"text", text, &TextToVideo::text_stage}};
  if (r.pictured) out.push_back({"image", model_.vae->mapped_bytes(), &TextToVideo::image_stage});
  out.push_back({"denoise", model_.mapped_transformer_bytes(), &TextToVideo::denoise_stage});
  out.push_back({"decode", model_.vae->mapped_bytes(), &TextToVideo::decode_stage});
  return out;
}

void TextToVideo::verify(const char* part, const TensorSource& file, const char* when, const Stream& stream) {
  if (check_ && !stream.measuring()) check_->verify(part, file, when);
}

// With --verify-upload what was loaded is compared with its file.
template <class Part, class Load>
void TextToVideo::ensure_loaded(Part& part, const char* name, const TensorSource& file, const Stream& stream,
                                Load&& load) {
  if (part.model) return;
  if (check_ && !stream.measuring()) check_->begin(name);
  part = load();
  verify(name, file, "after loading", stream);
}

uint64_t TextToVideo::text_stage(Walk& walk, Stream& stream) {
  LoadedText& text = walk.loaded.text;
  StageClock clock(walk.callbacks, "text", walk.request.guided ? 2 : 1);
  {
    const ProfileRange range(stream.hooks.profiler, "load text encoder", ProfileKind::load);
    if (walk.prompts.encodes(walk.request.guided)) {
      if (text_cache_ && !text.model && !stream.measuring()) text_fingerprint_ = encoder_fingerprint(model_);
      ensure_loaded(text, "text encoder", *model_.text_encoder, stream,
                    [&] { return load_text(model_, stream, walk.placement.text); });
    }
  }
  walk.blocks = text.blocks;
  const ProfileRange range(stream.hooks.profiler, "text encoder", ProfileKind::group);
  embed_prompts(walk, clock, stream);
  const uint64_t held = text.bytes;
  if (text.model) verify("text encoder", *model_.text_encoder, "after the last pass", stream);
  if (!walk.placement.keeps) text = {};
  return held;
}

void TextToVideo::embed_prompts(const Walk& walk, StageClock& clock, Stream& stream) {
  const Prompts& prompts = walk.prompts;
  const auto embed = [&](const std::vector<int64_t>& ids, const std::vector<float>& known,
                         const std::optional<TextCache::Key>& key, const Tensor& out) {
    if (!known.empty()) return upload(known.data(), out, stream);
    encode_text(*walk.loaded.text.model, ids, out, stream);
    if (!key || stream.measuring()) return;
    // Weights that changed since the key was made, or while the encoder used them, are not what it names.
    if (key->encoder != text_fingerprint_ || key->encoder != encoder_fingerprint(model_)) return;
    std::vector<float> values(static_cast<size_t>(out.numel()));
    download(out, values.data(), stream);
    text_cache_->keep(*key, values);
  };
  embed(prompts.positive, prompts.positive_text, prompts.positive_key, walk.shared.text);
  clock.done(1);
  if (!walk.request.guided) return;
  embed(prompts.negative, prompts.negative_text, prompts.negative_key, walk.shared.negative);
  clock.done(2);
}

uint64_t TextToVideo::image_stage(Walk& walk, Stream& stream) {
  LoadedVaeEncoder& encoder = walk.loaded.encoder;
  StageClock clock(walk.callbacks, "image", 1);
  ProfileRange range(stream.hooks.profiler, "load vae encoder", ProfileKind::load);
  ensure_loaded(encoder, "vae encoder", *model_.vae, stream,
                [&] { return load_vae_encoder(model_, stream); });
  range.next("encode image", ProfileKind::group);
  const uint64_t held =
      encoder.bytes + encode_condition(model_, *encoder.model, walk.request, walk.shared.condition, stream);
  clock.done(1);
  if (!walk.placement.keeps) encoder = {};
  return held;
}

uint64_t TextToVideo::denoise_stage(Walk& walk, Stream& stream) {
  const Sampler sampler(sampler_config(walk.request.request));
  LoadedTransformers& transformers = walk.loaded.transformers;
  const auto load = [&](int part) {
    LoadedDit& dit = transformers.parts.at(static_cast<size_t>(part));
    walk.blocks = dit.blocks;
    if (dit.model) return;
    const ProfileRange range(stream.hooks.profiler, "load transformer", ProfileKind::load);
    ensure_loaded(dit, ModelBundle::transformer_name(part), *model_.transformer_of(part), stream, [&] {
      StageClock clock(walk.callbacks, "load", model_.dit.num_layers);
      return load_dit(model_, part, options_.weights, stream, walk.placement.denoise,
                      [&](int64_t done, int64_t) { clock.done(done); });
    });
    walk.blocks = dit.blocks;
  };
  const auto give_back = [&](int part) {
    verify(ModelBundle::transformer_name(part), *model_.transformer_of(part), "after the last step", stream);
    if (!walk.placement.keeps) transformers.parts.at(static_cast<size_t>(part)) = {};
  };
  const size_t first = walk.resume ? static_cast<size_t>(walk.resume->step) : 0;
  load(part_of_steps(model_, sampler.schedule()).at(first));
  // Planned is what stays for later requests, whatever this one needs of it.
  for (int part = 0; part < model_.experts() && walk.placement.keeps && stream.measuring(); ++part)
    load(part);
  const ProfileRange range(stream.hooks.profiler, "denoise", ProfileKind::group);
  return denoise({.model = &model_,
                  .request = &walk.request,
                  .sampler = &sampler,
                  .text = walk.shared.text,
                  .negative = walk.shared.negative,
                  .latents = walk.shared.latents,
                  .condition = walk.shared.condition,
                  .image_embeds = image_embeds(model_, walk.request),
                  .transformers = &transformers,
                  .load = load,
                  .give_back = give_back,
                  .noise = walk.noise,
                  .callbacks = walk.callbacks,
                  .graphs = options_.graphs && gpu_mode_.graphs && !check_,
                  .resume = walk.resume,
                  .reused = &walk.steps_reused},
                 stream);
}

uint64_t TextToVideo::decode_stage(Walk& walk, Stream& stream) {
  LoadedVae& vae = walk.loaded.vae;
  ProfileRange range(stream.hooks.profiler, "load vae", ProfileKind::load);
  ensure_loaded(vae, "vae decoder", *model_.vae, stream, [&] { return load_vae(model_, stream); });
  range.next("decode", ProfileKind::group);
  decode(*vae.model, walk.shared.latents, walk.callbacks, stream);
  const ResolvedRequest& r = walk.request;
  const uint64_t state = align_up(vae.model->state_bytes(r.latent_height, r.latent_width, r.latent_frames));
  const uint64_t held = vae.bytes + state;
  if (!walk.placement.keeps) vae = {};
  return held;
}

}  // namespace tachy
