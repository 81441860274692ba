// wav2vec2's positional embedding, a wide convolution in groups of channels that is added to its input:
//   h[t] += act(W·[h[t − k/2] … h[t − k/2 + k − 1]] + b)        zeros beyond both ends
// The file contains the factors of weight norm, g / ‖v‖ for each tap; here they are part of the weights. Each
// group is a product of its own, over windows of the group's channels.
#pragma once

#include <vector>

#include "models/wav2vec2/wav2vec2_config.h"
#include "nn/linear.h"

namespace tachy {

class Wav2Vec2Position {
 public:
  Wav2Vec2Position() = default;
  Wav2Vec2Position(const Scope& scope, const Wav2Vec2Config& config, nn::ParamStore& store);

  // Updates h [frames, hidden_size] in place; it is f32 and contiguous.
  void add(const Tensor& h, Stream& stream) const;

 private:
  int64_t kernel_ = 0;
  ops::Activation act_ = ops::Activation::none;
  std::vector<nn::Linear> groups_;
};

}  // namespace tachy
