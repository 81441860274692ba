// wav2vec2 at a video's rate: what InfiniteTalk and its like make their audio tokens of (transformers' Wav2Vec2Model; the
// states that its layers leave behind):
//   f = the convolutions' vectors (wav2vec2_features.h), interpolated to `frames` points before anything else
//   h = W·LN(f);  h += position(h)
//   norm last  (base):   h = LN(h);  each layer:  h = LN(h + Attn(h));  h = LN(h + W₂·gelu(W₁·h))
//   norm first (large):  each layer: h += Attn(LN(h));  h += W₂·gelu(W₁·LN(h));  the last state is LN(h)
// A layer attends to the whole clip, so its states depend on all of it. What stands behind the layers in files of whole
// models (quantizer, projections, a head) is never read.
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
  // Names are those of weights/names/rename.h's wav2vec2_source.
  Wav2Vec2(const Scope& scope, const Wav2Vec2Config& config, nn::ParamStore& store);

  // What a file may hold besides, for load_component.
  static std::vector<std::string> ignorable();

  const Wav2Vec2Config& config() const { return config_; }
  const nn::LinearRegistry& linears() const { return *linears_; }

  // samples [n] f32 on the host, of 16 kHz, at least config().least_samples() → states [frames, num_layers, hidden_size]
  // f32 where the stream computes: of each frame what the first layer left, to what the last one did.
  void forward(const Tensor& samples, const Tensor& states, Stream& stream) const;

 private:
  void embed(const Tensor& samples, const Tensor& h, Stream& stream) const;
  void norm_last(const Tensor& h, const Tensor& states, Stream& stream) const;
  void norm_first(const Tensor& h, const Tensor& states, Stream& stream) const;

  Wav2Vec2Config config_;
  Precision precision_;  // what the weights were made for
  Wav2Vec2Features features_;
  nn::Norm feature_norm_, norm_;
  nn::Linear projection_;
  Wav2Vec2Position position_;
  std::vector<nn::EncoderLayer> layers_;  // norm1, norm2: behind attention and feed-forward, or before them
  std::shared_ptr<const nn::LinearRegistry> linears_;
  std::shared_ptr<const void> mapping_;
};

}  // namespace tachy
