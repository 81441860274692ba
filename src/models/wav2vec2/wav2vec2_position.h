// wav2vec2's positional embedding, a wide convolution in groups of channels that is added to its input:
//   h[t] += act(W·[h[t − k/2] … h[t − k/2 + k − 1]] + b)        zeros beyond both ends
// Its file holds weight norm's factors, g / ‖v‖ for each tap; here they are part of the weights. Each group
// is a product of its own over windows of the group's channels.
#pragma once

#include <vector>

#include "models/wav2vec2/wav2vec2_config.h"
#include "nn/linear.h"

namespace tachy {

class Wav2Vec2Position {
 public:
  Wav2Vec2Position() = default;
  Wav2Vec2Position(const Scope& scope, const Wav2Vec2Config& config, nn::ParamStore& store);

  // h [frames, hidden_size] f32, contiguous, updated in place.
  void add(const Tensor& h, Stream& stream) const;

 private:
  int64_t kernel_ = 0;
  ops::Activation act_ = ops::Activation::none;
  std::vector<nn::Linear> groups_;
};

}  // namespace tachy
