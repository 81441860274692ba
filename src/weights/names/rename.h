// Maps the names of the original Wan checkpoints, and of llama.cpp's text encoders, to the names of diffusers
// and Hugging Face, which models read.
//
// DiT and VAE get diffusers' names, the text encoder gets those of UMT5EncoderModel with the embedding as
// `shared.weight`, and CLIP gets those of CLIPVisionModel. A name that a map does not know is kept, so that
// the report of unused tensors shows it. Values are never reordered.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weights/tensor_source.h"

namespace tachy {

using RenameMap = std::string (*)(std::string_view original);

// Turns blocks.0.self_attn.q.weight into blocks.0.attn1.to_q.weight.
std::string dit_from_original(std::string_view name);
std::string umt5_from_original(std::string_view name);  // blocks.0.attn.q.weight → encoder.block.0.layer.0.…
std::string vae21_from_original(std::string_view name);  // decoder.conv1.weight → decoder.conv_in.weight
std::string vae22_from_original(std::string_view name);
std::string umt5_from_gguf(std::string_view name);  // from llama.cpp's names: enc.blk.0.attn_q.weight

// These map the name of a tensor in diffusers or Hugging Face to the original's.
std::string dit_to_original(std::string_view name);
std::string umt5_to_original(std::string_view name);

bool is_original_dit_names(const TensorSource& source);
bool is_original_umt5_names(const TensorSource& source);
bool is_gguf_umt5_names(const TensorSource& source);
bool is_original_vae21_names(const TensorSource& source);
bool is_original_vae22_names(const TensorSource& source);

// Returns the same tensors with mapped names. Throws corrupt if two tensors get the same name.
std::shared_ptr<TensorSource> renamed(const std::shared_ptr<TensorSource>& source, RenameMap map);

// Finds the first of `prefixes` with which any tensor begins, and removes it from all tensors that begin with
// it. By default these are the prefixes of repackaged single files: model.diffusion_model. diffusion_model.
// first_stage_model. transformer. model.
std::shared_ptr<TensorSource> without_prefix(const std::shared_ptr<TensorSource>& source,
                                             std::span<const std::string_view> prefixes);
std::shared_ptr<TensorSource> without_prefix(const std::shared_ptr<TensorSource>& source);

// The first step for all names. It removes the names of wrappers (wrapper_names.h; if two tensors then have
// the same name, an error gives both), joins quantised weights with their scales (quantized_source.h), and
// makes all values floats (plain_values.h).
std::shared_ptr<TensorSource> plain_source(const std::shared_ptr<TensorSource>& source);

// The result of all steps: plain_source, removing the prefix, detecting the naming, and renaming if needed.
struct NamedSource {
  std::shared_ptr<TensorSource> source;  // under diffusers' or Hugging Face's names
  bool original = false;                 // the file had the original's names
};
NamedSource dit_source(const std::shared_ptr<TensorSource>& source);
// This also makes shared.weight from embed_tokens.
NamedSource umt5_source(const std::shared_ptr<TensorSource>& source);
NamedSource vae_source(const std::shared_ptr<TensorSource>& source);  // for the VAEs of 2.1 and 2.2
// For CLIP's vision model (clip_names.cpp): names are "vision_model.…", with q, k and v apart. It reads the
// original's files, and Hugging Face's with and without the prefix.
NamedSource clip_vision_source(const std::shared_ptr<TensorSource>& source);
// For Wav2Vec2Model of older or newer transformers, alone or in a model with a head (wav2vec2_names.cpp).
std::shared_ptr<TensorSource> wav2vec2_source(const std::shared_ptr<TensorSource>& source);
// For the tensors that InfiniteTalk adds to a transformer (infinitetalk_names.cpp): audio_proj.…,
// blocks.N.audio_cross_attn.….
std::shared_ptr<TensorSource> infinitetalk_source(const std::shared_ptr<TensorSource>& source);

}  // namespace tachy
