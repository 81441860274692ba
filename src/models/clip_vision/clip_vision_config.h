// Options of CLIP's vision model, from the config.json that Hugging Face's CLIPVisionModel (or the whole CLIPModel)
// writes; the original Wan layout and single files have no such file: there the tensors tell, but for the number
// of heads, which is known of the published sizes alone.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "ops/activation_kind.h"
#include "weights/tensor_source.h"

namespace tachy {

// The defaults are those of ViT-H/14, which Wan 2.1's image-to-video models look through.
struct ClipVisionConfig {
  int64_t hidden_size = 1280;
  int64_t intermediate_size = 5120;
  int64_t num_layers = 32;
  int64_t num_heads = 16;
  int64_t image_size = 224;  // pixels a side
  int64_t patch_size = 14;
  ops::Activation act = ops::Activation::gelu_erf;
  float eps = 1e-5f;

  int64_t head_dim() const { return hidden_size / num_heads; }
  int64_t patches_a_side() const { return image_size / patch_size; }
  int64_t tokens() const { return patches_a_side() * patches_a_side() + 1; }  // the class token first

  // What a key that is missing means is what transformers' CLIPVisionConfig says, whose files leave it out then.
  static ClipVisionConfig from_json(const nlohmann::json& config);
  // Read off the shapes, under Hugging Face's names. Throws not_found for what is no vision model of CLIP's.
  static ClipVisionConfig from_tensors(const TensorSource& source);
  bool operator==(const ClipVisionConfig&) const = default;
};

// Under Hugging Face's names (clip_vision_source in weights/names/rename.h).
bool is_clip_vision(const TensorSource& source);

}  // namespace tachy
