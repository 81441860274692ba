// Options of wav2vec2, from the config.json of Hugging Face's Wav2Vec2Model (or of one with a head). For a
// single file they follow from the tensors, except for the number of heads and the strides of the
// convolutions, which are known only for the published sizes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "ops/activation_kind.h"
#include "weights/tensor_source.h"

namespace tachy {

// The defaults are those of the base model, from whose hidden states InfiniteTalk makes its audio tokens.
struct Wav2Vec2Config {
  static constexpr int64_t kSampleRate = 16000;

  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t num_layers = 12;
  int64_t num_heads = 12;
  // Channels of the convolutions over samples.
  std::vector<int64_t> conv_dim = {512, 512, 512, 512, 512, 512, 512};
  std::vector<int64_t> conv_kernel = {10, 3, 3, 3, 3, 2, 2};
  std::vector<int64_t> conv_stride = {5, 2, 2, 2, 2, 2, 2};
  bool conv_bias = false;
  // Whether each convolution is normed (feat_extract_norm "layer") or only the first, over time ("group").
  bool layer_features = false;
  bool norm_first = false;   // do_stable_layer_norm
  int64_t pos_kernel = 128;  // num_conv_pos_embeddings
  int64_t pos_groups = 16;
  ops::Activation feature_act = ops::Activation::gelu_erf;
  ops::Activation act = ops::Activation::gelu_erf;
  float eps = 1e-5f;

  int64_t head_dim() const { return hidden_size / num_heads; }
  int64_t features() const { return conv_dim.back(); }
  int64_t vectors(int64_t samples) const;  // how many vectors the convolutions make of that many samples
  int64_t least_samples() const;           // the fewest samples that give a vector

  // A missing key gets the default of transformers' Wav2Vec2Config, because files leave out values that equal
  // it.
  static Wav2Vec2Config from_json(const nlohmann::json& config);
  // Finds the options by the tensors' shapes (wav2vec2_source in weights/names/rename.h). Throws `not_found`
  // if the file contains no wav2vec2.
  static Wav2Vec2Config from_tensors(const TensorSource& source);
  bool operator==(const Wav2Vec2Config&) const = default;
};

bool is_wav2vec2(const TensorSource& source);

}  // namespace tachy
