// Options of wav2vec2, from the config.json that Hugging Face's Wav2Vec2Model (or one with a head) writes; a file by itself
// has no such file: there the tensors tell, but for the number of heads and the convolutions' strides, which are known
// of the published sizes alone.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "ops/activation_kind.h"
#include "weights/tensor_source.h"

namespace tachy {

// The defaults are those of the base model, of whose hidden states InfiniteTalk makes its audio tokens.
struct Wav2Vec2Config {
  static constexpr int64_t kSampleRate = 16000;

  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t num_layers = 12;
  int64_t num_heads = 12;
  std::vector<int64_t> conv_dim = {512, 512, 512, 512,
                                   512, 512, 512};  // channels of the convolutions over samples
  std::vector<int64_t> conv_kernel = {10, 3, 3, 3, 3, 2, 2};
  std::vector<int64_t> conv_stride = {5, 2, 2, 2, 2, 2, 2};
  bool conv_bias = false;
  bool layer_features =
      false;  // feat_extract_norm "layer": each convolution is normed; "group": the first, over time
  bool norm_first = false;   // do_stable_layer_norm
  int64_t pos_kernel = 128;  // num_conv_pos_embeddings
  int64_t pos_groups = 16;
  ops::Activation feature_act = ops::Activation::gelu_erf;
  ops::Activation act = ops::Activation::gelu_erf;
  float eps = 1e-5f;

  int64_t head_dim() const { return hidden_size / num_heads; }
  int64_t features() const { return conv_dim.back(); }
  int64_t vectors(int64_t samples) const;  // that the convolutions make of so many samples
  int64_t least_samples() const;           // for one vector

  // What a key that is missing means is what transformers' Wav2Vec2Config says, whose files leave it out then.
  static Wav2Vec2Config from_json(const nlohmann::json& config);
  // Read off the shapes (wav2vec2_source in weights/names/rename.h). Throws not_found for what is no wav2vec2.
  static Wav2Vec2Config from_tensors(const TensorSource& source);
  bool operator==(const Wav2Vec2Config&) const = default;
};

bool is_wav2vec2(const TensorSource& source);

}  // namespace tachy
