#include "nn/encoder_layer.h"

namespace tachy::nn {

void EncoderLayer::operator()(const Tensor& h, const AttentionInput& in, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const Tensor normed = stream.arena->tensor(stream.precision.activation, h.shape());
  ProfileRange part(stream.hooks.profiler, "norm", ProfileKind::norm);
  norm1(h, normed, stream);
  part.next("self-attention", ProfileKind::group);
  attention(normed, h, h, in, stream);
  part.next("norm", ProfileKind::norm);
  norm2(h, normed, stream);
  part.next("feed-forward", ProfileKind::group);
  mlp(normed, h, stream, {.residual = h});
}

}  // namespace tachy::nn
