// A layer of a transformer encoder with its norms in front:
//   h += attention(norm1(h));  h += mlp(norm2(h))
#pragma once

#include "nn/attention.h"
#include "nn/mlp.h"

namespace tachy::nn {

struct EncoderLayer {
  Norm norm1, norm2;
  Attention attention;
  Mlp mlp;

  // Updates h [batch·length, channels] in place; its dtype may be wider than the activations'.
  void operator()(const Tensor& h, const AttentionInput& in, Stream& stream) const;
};

}  // namespace tachy::nn
