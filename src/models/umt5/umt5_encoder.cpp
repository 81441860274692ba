#include "models/umt5/umt5_encoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/attention/attention.h"
#include "ops/embedding/embedding.h"
#include "ops/rmsnorm/rmsnorm.h"

namespace tachy {

int64_t relative_position_bucket(int64_t relative, int64_t num_buckets, int64_t max_distance) {
  const int64_t half = num_buckets / 2, exact = half / 2;
  const int64_t base = relative > 0 ? half : 0, n = std::abs(relative);
  if (n < exact) return base + n;
  // float32 as the reference computes it: the thresholds fall on exact powers of two.
  const float ratio =
      std::log(static_cast<float>(n) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const auto step = static_cast<int64_t>(ratio * static_cast<float>(half - exact));
  return base + std::min(half - 1, exact + step);
}

Umt5Encoder::Umt5Encoder(const Scope& scope, const Umt5Config& c, nn::ParamStore& store)
    : config_(c),
      embedding_(scope.tensor("shared.weight", {c.vocab_size, c.d_model})),
      mapping_(scope.keep()) {
  const int64_t inner = c.num_heads * c.d_kv;
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const Scope block = scope.sub("encoder.block").sub(i).sub("layer");
    const Scope attention = block.sub("0.SelfAttention"), ff = block.sub("1.DenseReluDense");
    Layer layer;
    layer.norm1 = store.widened(block.tensor("0.layer_norm.weight", {c.d_model}));
    layer.q = nn::Linear(attention.sub("q"), store, c.d_model, inner, false);
    layer.k = nn::Linear(attention.sub("k"), store, c.d_model, inner, false);
    layer.v = nn::Linear(attention.sub("v"), store, c.d_model, inner, false);
    layer.o = nn::Linear(attention.sub("o"), store, inner, c.d_model, false);
    layer.position_bias =
        store.widened(attention.tensor("relative_attention_bias.weight", {c.num_buckets, c.num_heads}));
    layer.norm2 = store.widened(block.tensor("1.layer_norm.weight", {c.d_model}));
    layer.gate = nn::Linear(ff.sub("wi_0"), store, c.d_model, c.d_ff, false);
    layer.up = nn::Linear(ff.sub("wi_1"), store, c.d_model, c.d_ff, false);
    layer.down = nn::Linear(ff.sub("wo"), store, c.d_ff, c.d_model, false);
    layers_.push_back(std::move(layer));
  }
  final_norm_ = store.widened(scope.tensor("encoder.final_layer_norm.weight", {c.d_model}));
}

namespace {

// bias [H, L, L] from the layer's table [buckets, H]; it depends on key − query only.
void fill_position_bias(const Tensor& table, const Tensor& bias, const Umt5Config& c, Stream& stream) {
  const int64_t length = bias.dim(1);
  const float* values = table.as<float>();
  std::vector<int64_t> bucket(static_cast<size_t>(2 * length - 1));
  for (int64_t d = 1 - length; d < length; ++d)
    bucket[static_cast<size_t>(d + length - 1)] = relative_position_bucket(d, c.num_buckets, c.max_distance);
  stream.pool->run(c.num_heads, [&](int64_t head, int) {
    float* out = bias.as<float>() + head * length * length;
    for (int64_t query = 0; query < length; ++query)
      for (int64_t key = 0; key < length; ++key)
        *out++ = values[bucket[static_cast<size_t>(key - query + length - 1)] * c.num_heads + head];
  });
}

}  // namespace

void Umt5Encoder::forward(const Tensor& ids, const Tensor& mask, const Tensor& out, Stream& stream) const {
  const Umt5Config& c = config_;
  const int64_t batch = ids.dim(0), length = ids.dim(1), rows = batch * length, inner = c.num_heads * c.d_kv;
  expect_shape("umt5", "out", out, {batch, length, c.d_model});
  Arena& arena = *stream.arena;
  const ArenaScope scope(arena);

  const Tensor h = out.view({rows, c.d_model});  // the residual stream lives in the output
  const Tensor normed = arena.f32({rows, c.d_model});
  const Tensor q = arena.f32({rows, inner}), k = arena.f32({rows, inner}), v = arena.f32({rows, inner});
  const Tensor mixed = arena.f32({rows, inner});
  const Tensor bias = arena.f32({c.num_heads, length, length});
  const Tensor gate = arena.f32({rows, c.d_ff}), hidden = arena.f32({rows, c.d_ff});
  Tensor key_bias;
  if (mask.defined()) {
    expect_shape("umt5", "attention_mask", mask, {batch, length});
    key_bias = arena.f32({batch, length});
    if (!stream.measuring())
      for (int64_t i = 0; i < rows; ++i)
        key_bias.as<float>()[i] = mask.as<int64_t>()[i] ? 0.0f : std::numeric_limits<float>::lowest();
  }
  const auto heads = [&](const Tensor& t) { return t.view({batch, length, c.num_heads, c.d_kv}); };

  ops::embedding({.ids = ids.view({rows}), .table = embedding_, .y = h}, stream);
  for (const Layer& layer : layers_) {
    stream.throw_if_cancelled();
    ops::rmsnorm({.x = h, .weight = layer.norm1, .eps = c.eps, .y = normed}, stream);
    layer.q(normed, q, stream);
    layer.k(normed, k, stream);
    layer.v(normed, v, stream);
    if (!stream.measuring()) fill_position_bias(layer.position_bias, bias, c, stream);
    ops::attention({.q = heads(q),
                    .k = heads(k),
                    .v = heads(v),
                    .key_bias = key_bias,
                    .bias = bias,
                    .scale = 1,
                    .out = heads(mixed)},
                   stream);
    layer.o(mixed, h, stream, {.residual = h});

    ops::rmsnorm({.x = h, .weight = layer.norm2, .eps = c.eps, .y = normed}, stream);
    layer.gate(normed, gate, stream, {.act = ops::Activation::gelu_tanh});
    layer.up(normed, hidden, stream, {.multiply = gate});
    layer.down(hidden, h, stream, {.residual = h});
  }
  ops::rmsnorm({.x = h, .weight = final_norm_, .eps = c.eps, .y = h}, stream);
}

}  // namespace tachy
