// Turns the rows that an image encoder makes of the picture into tokens of the transformer's width:
//   LN(W2·gelu(W1·LN(rows [+ positions])))
// Only first-last-frame models, which get two pictures, have positions.
#pragma once

#include "models/wan/wan_config.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace tachy {

class WanImageEmbedding {
 public:
  WanImageEmbedding() = default;
  WanImageEmbedding(const Scope& scope, const WanConfig& config, nn::ParamStore& store);

  // Turns image [m, image_dim] f32, on the host or on the model's device, into [m, dim] in the stream's
  // arena.
  Tensor operator()(const Tensor& image, Stream& stream) const;

 private:
  int64_t width_ = 0, positions_ = 0, dim_ = 0;
  Tensor pos_embed_;
  nn::Norm norm1_, norm2_;
  nn::Mlp mlp_;
};

}  // namespace tachy
