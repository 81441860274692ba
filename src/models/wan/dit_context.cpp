// Prepares a prompt and a picture before the first step: makes keys and values for every block.
#include <cmath>

#include "models/wan/dit.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

WanContext WanDit::make_context(const Tensor& text, int64_t total_rows, const Tensor& image,
                                nn::ParamStore& store) const {
  const WanConfig& c = config_;
  Stream& stream = store.stream();
  const ArenaScope scope(*stream.arena);
  expect_own(stream);
  if (c.text_dim == 0) {
    require(!text.defined() && image.defined(),
            "transformer: the model has no text: expected an image's embeddings alone");
    WanContext context;  // the image's tokens replace the text
    const ArenaScope made(*stream.arena);
    add_keys(image_(image, stream), context, store);
    return context;
  }
  const int64_t dim = c.dim(), given = text.dim(0);
  expect_shape("transformer", "encoder_hidden_states", text, {given, c.text_dim});
  require(total_rows >= given, "transformer: {} text rows exceed the context's {}", given, total_rows);
  const bool padded = total_rows > given, collapsed = padded && !stream.without.has(Optimisation::few_keys);
  const int64_t keys = collapsed ? given + 1 : total_rows;

  // A single zero row stands for all rows past the prompt (unless this is switched off): equal rows stay
  // equal, and exp(s + ln n) = n·exp(s).
  const DType type = stream.precision.activation;
  const Tensor rows = stream.arena->tensor(type, {keys, c.text_dim});
  const Tensor hidden = stream.arena->tensor(type, {keys, dim}),
               embedded = stream.arena->tensor(type, {keys, dim});
  WanContext context;
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
  add_keys(embedded, context, store);
  require(!image.defined() || c.image_branch(),
          "transformer: image embeddings given, but the model has no image branch");
  const ArenaScope pictured(*stream.arena);
  const WanTokens tokens{.text = embedded, .image = image.defined() ? image_(image, stream) : Tensor()};
  for (const auto& branch : branches_) branch->add_context(*this, tokens, context, store);
  return context;
}

void WanDit::add_keys(const Tensor& tokens, WanContext& context, nn::ParamStore& store) const {
  Stream& stream = store.stream();
  for (Tensor* t : {&context.k, &context.v})
    *t = store.allocate(stream.precision.activation, {config_.num_layers, tokens.dim(0), config_.dim()});
  each_block([&](int64_t i) {
    blocks_[static_cast<size_t>(i)].text_keys(tokens, context.k.select(0, i), context.v.select(0, i), stream);
  });
}

}  // namespace tachy
