// Options of CLIP's vision model, from the config.json of Hugging Face's CLIPVisionModel (or of the whole
// CLIPModel). The original Wan layout and single files have no config.json, so the options follow from the
// tensors. The number of heads does not follow from them, and is known only for the published sizes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "ops/activation_kind.h"
#include "weights/tensor_source.h"

namespace tachy {

// The defaults are those of ViT-H/14, which Wan 2.1's image-to-video models use.
struct ClipVisionConfig {
  int64_t hidden_size = 1280;
  int64_t intermediate_size = 5120;
  int64_t num_layers = 32;
  int64_t num_heads = 16;
  int64_t image_size = 224;  // pixels per side
  int64_t patch_size = 14;
  ops::Activation act = ops::Activation::gelu_erf;
  float eps = 1e-5f;

  int64_t head_dim() const { return hidden_size / num_heads; }
  int64_t patches_a_side() const { return image_size / patch_size; }
  int64_t tokens() const { return patches_a_side() * patches_a_side() + 1; }  // the class token comes first

  // A missing key gets the default of transformers' CLIPVisionConfig, because files leave out values that
  // equal it.
  static ClipVisionConfig from_json(const nlohmann::json& config);
  // Finds the options by the tensors' shapes, under Hugging Face's names. Throws `not_found` if the file
  // contains no CLIP vision model.
  static ClipVisionConfig from_tensors(const TensorSource& source);
  bool operator==(const ClipVisionConfig&) const = default;
};

// Says whether a source has Hugging Face's names for it (clip_vision_source in weights/names/rename.h).
bool is_clip_vision(const TensorSource& source);

}  // namespace tachy
