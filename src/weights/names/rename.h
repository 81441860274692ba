// Maps names of the original Wan checkpoints, and of llama.cpp's text encoders, to those of diffusers and
// Hugging Face, which models read.
//
// DiT and VAE get diffusers' names, the text encoder those of UMT5EncoderModel, with the embedding as
// `shared.weight`, and CLIP those of CLIPVisionModel. Names that a map does not know stay as they are, so
// that the report of unused tensors shows them. No value is permuted.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weights/tensor_source.h"

namespace tachy {

using RenameMap = std::string (*)(std::string_view original);

// blocks.0.self_attn.q.weight → blocks.0.attn1.to_q.weight
std::string dit_from_original(std::string_view name);
std::string umt5_from_original(std::string_view name);  // blocks.0.attn.q.weight → encoder.block.0.layer.0.…
std::string vae21_from_original(std::string_view name);  // decoder.conv1.weight → decoder.conv_in.weight
std::string vae22_from_original(std::string_view name);
std::string umt5_from_gguf(std::string_view name);  // from llama.cpp's names: enc.blk.0.attn_q.weight

// The other way: from diffusers' or Hugging Face's name of a tensor to the original's.
std::string dit_to_original(std::string_view name);
std::string umt5_to_original(std::string_view name);

bool is_original_dit_names(const TensorSource& source);
bool is_original_umt5_names(const TensorSource& source);
bool is_gguf_umt5_names(const TensorSource& source);
bool is_original_vae21_names(const TensorSource& source);
bool is_original_vae22_names(const TensorSource& source);

// Returns the same tensors under mapped names. Throws corrupt if two tensors get the same name.
std::shared_ptr<TensorSource> renamed(const std::shared_ptr<TensorSource>& source, RenameMap map);

// Takes the first of `prefixes` that any tensor begins with, and removes it from all tensors that begin with
// it. The default list is that of repackaged single files: model.diffusion_model. diffusion_model.
// first_stage_model. transformer. model.
std::shared_ptr<TensorSource> without_prefix(const std::shared_ptr<TensorSource>& source,
                                             std::span<const std::string_view> prefixes);
std::shared_ptr<TensorSource> without_prefix(const std::shared_ptr<TensorSource>& source);

// The first step of every map of names. It removes the names that wrappers put in (wrapper_names.h; if two
// tensors then have the same name, an error gives both), joins quantised weights and their scales
// (quantized_source.h), and makes all values floats (plain_values.h).
std::shared_ptr<TensorSource> plain_source(const std::shared_ptr<TensorSource>& source);

// All steps together: plain_source, the prefix removed, the naming detected, and tensors renamed where
// needed.
struct NamedSource {
  std::shared_ptr<TensorSource> source;  // under diffusers' or Hugging Face's names
  bool original = false;                 // the file used the original names
};
NamedSource dit_source(const std::shared_ptr<TensorSource>& source);
// Also makes shared.weight from embed_tokens.
NamedSource umt5_source(const std::shared_ptr<TensorSource>& source);
NamedSource vae_source(const std::shared_ptr<TensorSource>& source);  // VAEs of 2.1 and 2.2
// CLIP's vision model (clip_names.cpp), named "vision_model.…", with q, k and v apart. Reads Hugging Face's
// files with and without that prefix, and the original's.
NamedSource clip_vision_source(const std::shared_ptr<TensorSource>& source);
// Wav2Vec2Model of older or newer transformers, by itself or in a model with a head (wav2vec2_names.cpp).
std::shared_ptr<TensorSource> wav2vec2_source(const std::shared_ptr<TensorSource>& source);
// The tensors that InfiniteTalk adds to a transformer (infinitetalk_names.cpp): audio_proj.…,
// blocks.N.audio_cross_attn.….
std::shared_ptr<TensorSource> infinitetalk_source(const std::shared_ptr<TensorSource>& source);

}  // namespace tachy
