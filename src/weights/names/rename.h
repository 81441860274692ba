// Names of the original Wan checkpoints, and of llama.cpp's text encoders, mapped to the diffusers / Hugging
// Face ones, which models read.
//
// DiT, VAE: diffusers; text encoder: UMT5EncoderModel, with the embedding as `shared.weight`; CLIP: CLIPVisionModel. Names that a
// map does not know stay as they are, so that the report of unused tensors shows them. No value is permuted.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weights/tensor_source.h"

namespace tachy {

using RenameMap = std::string (*)(std::string_view original);

std::string dit_from_original(
    std::string_view name);  // blocks.0.self_attn.q.weight → blocks.0.attn1.to_q.weight
std::string umt5_from_original(std::string_view name);  // blocks.0.attn.q.weight → encoder.block.0.layer.0.…
std::string vae21_from_original(std::string_view name);  // decoder.conv1.weight → decoder.conv_in.weight
std::string vae22_from_original(std::string_view name);
std::string umt5_from_gguf(std::string_view name);  // llama.cpp's: enc.blk.0.attn_q.weight

// The other way: the original's name of a tensor that has diffusers' or Hugging Face's.
std::string dit_to_original(std::string_view name);
std::string umt5_to_original(std::string_view name);

bool is_original_dit_names(const TensorSource& source);
bool is_original_umt5_names(const TensorSource& source);
bool is_gguf_umt5_names(const TensorSource& source);
bool is_original_vae21_names(const TensorSource& source);
bool is_original_vae22_names(const TensorSource& source);

// The same tensors under mapped names. Throws corrupt when two names fall together.
std::shared_ptr<TensorSource> renamed(const std::shared_ptr<TensorSource>& source, RenameMap map);

// Takes the first of `prefixes` that some tensor has off the tensors that have it. The default list is that
// of repackaged single files: model.diffusion_model. diffusion_model. first_stage_model. transformer. model.
std::shared_ptr<TensorSource> without_prefix(const std::shared_ptr<TensorSource>& source,
                                             std::span<const std::string_view> prefixes);
std::shared_ptr<TensorSource> without_prefix(const std::shared_ptr<TensorSource>& source);

// Maps of names begin with this: the names that wrappers put in are gone (wrapper_names.h; two names that fall together are an
// error that has both), quantised weights are put together with their scales (quantized_source.h), and values are floats (plain_values.h).
std::shared_ptr<TensorSource> plain_source(const std::shared_ptr<TensorSource>& source);

// All of it: plain_source, prefix stripped, naming detected, renamed where needed.
struct NamedSource {
  std::shared_ptr<TensorSource> source;  // diffusers / HF names
  bool original = false;                 // the file used the original names
};
NamedSource dit_source(const std::shared_ptr<TensorSource>& source);
NamedSource umt5_source(
    const std::shared_ptr<TensorSource>& source);  // also makes shared.weight from embed_tokens
NamedSource vae_source(const std::shared_ptr<TensorSource>& source);  // 2.1 and 2.2
// CLIP's vision model (clip_names.cpp): "vision_model.…", with q, k and v apart, of Hugging Face's files with and
// without that prefix, and of the original's.
NamedSource clip_vision_source(const std::shared_ptr<TensorSource>& source);
// Transformers' Wav2Vec2Model, newer or older, by itself or in a model with a head (wav2vec2_names.cpp).
std::shared_ptr<TensorSource> wav2vec2_source(const std::shared_ptr<TensorSource>& source);
// The tensors that InfiniteTalk adds to a transformer (infinitetalk_names.cpp): audio_proj.…, blocks.N.audio_cross_attn.….
std::shared_ptr<TensorSource> infinitetalk_source(const std::shared_ptr<TensorSource>& source);

}  // namespace tachy
