#include "models/wan/branches/image/image_embedding.h"

#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

WanImageEmbedding::WanImageEmbedding(const Scope& scope, const WanConfig& c, nn::ParamStore& store)
    : width_(c.image_dim), positions_(c.pos_embed_seq_len), dim_(c.dim()) {
  constexpr float kEps = 1e-5f;
  if (positions_ > 0) pos_embed_ = store.widened(scope.tensor("pos_embed", {1, positions_, width_}));
  norm1_ = nn::Norm::layer(scope.sub("norm1"), store, width_, kEps);
  mlp_.up = nn::Linear(scope.sub("ff.net.0.proj"), store, width_, width_);
  mlp_.down = nn::Linear(scope.sub("ff.net.2"), store, width_, dim_);
  mlp_.act = ops::Activation::gelu_erf;
  norm2_ = nn::Norm::layer(scope.sub("norm2"), store, dim_, kEps);
}

Tensor WanImageEmbedding::operator()(const Tensor& image, Stream& stream) const {
  const DType type = stream.precision.activation;
  const int64_t tokens = image.dim(0);
  expect_shape("transformer", "encoder_hidden_states_image", image, {tokens, width_});
  const Tensor given = stream.arena->f32({tokens, width_}), a = stream.arena->tensor(type, {tokens, width_}),
               wide = stream.arena->tensor(type, {tokens, dim_});
  bring(image, given, stream);
  if (pos_embed_.defined()) {
    expect_shape("transformer", "encoder_hidden_states_image", image, {positions_, width_});
    ops::LincombArgs sum{.count = 2, .out = given};
    sum.terms[0].x = given;
    sum.terms[1].x = pos_embed_.view({tokens, width_});
    ops::lincomb(sum, stream);
  }
  norm1_(given, a, stream);
  mlp_(a, wide, stream);
  norm2_(wide, wide, stream);
  return wide;
}

}  // namespace tachy
