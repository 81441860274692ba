// What the transformer makes of a prompt and a picture before the first step: keys and values for every block. (Of speech: dit_audio.cpp.)
#include <cmath>

#include "models/wan/dit.h"
#include "nn/adapter_set.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

WanContext WanDit::make_context(const Tensor& text, int64_t total_rows, const Tensor& image,
                                nn::ParamStore& store) const {
  const WanConfig& c = config_;
  Stream& stream = store.stream();
  const ArenaScope scope(*stream.arena);
  expect_same_weights("transformer", precision_, stream.precision);
  expect_same_products("transformer", precision_, stream.precision);
  nn::expect_own_adapters("transformer", stream, *linears_);
  if (c.text_dim == 0) {
    require(!text.defined() && image.defined(),
            "transformer: the model has no text: expected an image's embeddings alone");
    WanContext context;
    add_image(image, context, store);
    return context;
  }
  const int64_t dim = c.dim(), given = text.dim(0), layers = c.num_layers;
  expect_shape("transformer", "encoder_hidden_states", text, {given, c.text_dim});
  require(total_rows >= given, "transformer: {} text rows exceed the context's {}", given, total_rows);
  const bool padded = total_rows > given, collapsed = padded && !stream.without.has(Optimisation::few_keys);
  const int64_t keys = collapsed ? given + 1 : total_rows;

  // One zero row stands for all rows past the prompt (unless that is switched off): equal rows stay equal, and
  // exp(s + ln n) = n·exp(s).
  const DType type = stream.precision.activation;
  const Tensor rows = stream.arena->tensor(type, {keys, c.text_dim});
  const Tensor hidden = stream.arena->tensor(type, {keys, dim}),
               embedded = stream.arena->tensor(type, {keys, dim});
  WanContext context;
  context.k = store.allocate(type, {layers, keys, dim});
  context.v = store.allocate(type, {layers, keys, dim});
  if (collapsed) context.key_bias = store.allocate(DType::f32, {1, keys});
  ops::copy({.x = text, .y = rows.slice(0, 0, given)}, stream);
  if (padded) zero(rows.slice(0, given, keys), stream);
  if (collapsed) {
    std::vector<float> bias(static_cast<size_t>(keys), 0.0f);
    bias.back() = static_cast<float>(std::log(static_cast<double>(total_rows - given)));
    upload(bias.data(), context.key_bias, stream);
  }
  text1_(rows, hidden, stream, {.act = ops::Activation::gelu_tanh});
  text2_(hidden, embedded, stream);
  each_block([&](const WanBlock& block, int64_t i) {
    block.text_keys(embedded, context.k.select(0, i), context.v.select(0, i), stream);
  });
  if (!c.image_branch()) {
    require(!image.defined(), "transformer: image embeddings given, but the model has no image branch");
    return context;
  }
  if (image.defined()) add_image(image, context, store);
  return context;
}

void WanDit::add_image(const Tensor& image, WanContext& context, nn::ParamStore& store) const {
  const WanConfig& c = config_;
  Stream& stream = store.stream();
  const ArenaScope scope(*stream.arena);
  const DType type = stream.precision.activation;
  const int64_t tokens = image.dim(0), dim = c.dim(), layers = c.num_layers;
  expect_shape("transformer", "encoder_hidden_states_image", image, {tokens, c.image_dim});
  const Tensor given_image = stream.arena->f32({tokens, c.image_dim});
  const Tensor a = stream.arena->tensor(type, {tokens, c.image_dim});
  const Tensor wide = stream.arena->tensor(type, {tokens, dim});
  bring(image, given_image, stream);
  if (image_.pos_embed.defined()) {
    expect_shape("transformer", "encoder_hidden_states_image", image, {c.pos_embed_seq_len, c.image_dim});
    ops::LincombArgs sum{.count = 2, .out = given_image};
    sum.terms[0].x = given_image;
    sum.terms[1].x = image_.pos_embed.view({tokens, c.image_dim});
    ops::lincomb(sum, stream);
  }
  image_.norm1(given_image, a, stream);
  image_.mlp(a, wide, stream);
  image_.norm2(wide, wide, stream);
  if (c.text_dim == 0) {  // in the text's place
    context.k = store.allocate(type, {layers, tokens, dim});
    context.v = store.allocate(type, {layers, tokens, dim});
    return each_block([&](const WanBlock& block, int64_t i) {
      block.text_keys(wide, context.k.select(0, i), context.v.select(0, i), stream);
    });
  }
  context.image_k = store.allocate(type, {layers, tokens, dim});
  context.image_v = store.allocate(type, {layers, tokens, dim});
  each_block([&](const WanBlock& block, int64_t i) {
    block.image_keys(wide, context.image_k.select(0, i), context.image_v.select(0, i), stream);
  });
}

}  // namespace tachy
