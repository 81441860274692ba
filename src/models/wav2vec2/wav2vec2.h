// wav2vec2 at a video's rate. InfiniteTalk and similar models make audio tokens from the states of its layers
// (transformers' Wav2Vec2Model):
//   f = the convolutions' vectors (wav2vec2_features.h), interpolated to `frames` points before anything else
//   h = W·LN(f);  h += position(h)
//   norm last  (base):   h = LN(h);  each layer:  h = LN(h + Attn(h));  h = LN(h + W₂·gelu(W₁·h))
//   norm first (large):  each layer: h += Attn(LN(h));  h += W₂·gelu(W₁·LN(h));  the last state is LN(h)
// A layer attends to the whole clip, so its states depend on all of it. Files of whole models also contain
// parts after the layers (quantizer, projections, a head), which are never read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/wav2vec2/wav2vec2_config.h"
#include "models/wav2vec2/wav2vec2_features.h"
#include "models/wav2vec2/wav2vec2_position.h"
#include "nn/encoder_layer.h"
#include "nn/linear_registry.h"

namespace tachy {

class Wav2Vec2 {
 public:
  // The tensors have the names that wav2vec2_source in weights/names/rename.h gives them.
  Wav2Vec2(const Scope& scope, const Wav2Vec2Config& config, nn::ParamStore& store);

  // Tensors that a file may also contain; load_component ignores them.
  static std::vector<std::string> ignorable();

  const Wav2Vec2Config& config() const { return config_; }
  const nn::LinearRegistry& linears() const { return *linears_; }

  // Turns samples [n] f32 on the host, at 16 kHz and at least config().least_samples() of them, into states
  // [frames, num_layers, hidden_size] f32 where the stream computes. Each frame has the states after the
  // first layer up to those after the last.
  void forward(const Tensor& samples, const Tensor& states, Stream& stream) const;

 private:
  void embed(const Tensor& samples, const Tensor& h, Stream& stream) const;
  void norm_last(const Tensor& h, const Tensor& states, Stream& stream) const;
  void norm_first(const Tensor& h, const Tensor& states, Stream& stream) const;

  Wav2Vec2Config config_;
  Precision precision_;  // the precision that the weights were made for
  Wav2Vec2Features features_;
  nn::Norm feature_norm_, norm_;
  nn::Linear projection_;
  Wav2Vec2Position position_;
  // norm1 and norm2 come after attention and feed-forward, or before them.
  std::vector<nn::EncoderLayer> layers_;
  std::shared_ptr<const nn::LinearRegistry> linears_;
  std::shared_ptr<const void> mapping_;
};

}  // namespace tachy
