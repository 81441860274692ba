// CLIP's vision transformer up to the last layer but one, whose output Wan 2.1's image-to-video models look
// at (transformers' CLIPVisionModel: hidden_states[-2]; the original: the first 31 of 32 blocks):
//   h = [class; patches·W] + positions;  h = LN(h)
//   each layer but the last:  h += Attn(LN(h));  h += W₂·gelu(W₁·LN(h))
// The last layer, the norm after it and the projection of the file are not used.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/clip_vision/clip_vision_config.h"
#include "nn/encoder_layer.h"
#include "nn/linear_registry.h"

namespace tachy {

class ClipVision {
 public:
  // The tensors' names are those of Hugging Face's files ("vision_model.…").
  ClipVision(const Scope& scope, const ClipVisionConfig& config, nn::ParamStore& store);

  // Tensors that a file may also contain; load_component ignores them.
  static std::vector<std::string> ignorable(const ClipVisionConfig& config);

  const ClipVisionConfig& config() const { return config_; }
  const nn::LinearRegistry& linears() const { return *linears_; }

  // Computes pixels [B, 3, image_size, image_size] f32, where the stream computes → out [B, tokens,
  // hidden_size] f32.
  void forward(const Tensor& pixels, const Tensor& out, Stream& stream) const;

 private:
  void embed(const Tensor& pixels, const Tensor& h, Stream& stream) const;

  ClipVisionConfig config_;
  Precision precision_;  // the precision that the weights were made for
  Tensor class_;         // [hidden_size]
  Tensor positions_;     // [tokens, hidden_size]
  nn::Linear patches_;   // a convolution whose kernel is as wide as its stride
  nn::Norm pre_norm_;
  std::vector<nn::EncoderLayer> layers_;
  std::shared_ptr<const nn::LinearRegistry> linears_;
  std::shared_ptr<const void> mapping_;
};

}  // namespace tachy
