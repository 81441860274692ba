#include "models/umt5/umt5_encoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/adapter_set.h"
#include "ops/position_bias/position_bias.h"
#include "runtime/pace.h"
#include "tensor/transfer.h"

namespace tachy {

int64_t relative_position_bucket(int64_t relative, int64_t num_buckets, int64_t max_distance) {
  const int64_t half = num_buckets / 2, exact = half / 2;
  const int64_t base = relative > 0 ? half : 0, n = std::abs(relative);
  if (n < exact) return base + n;
  // This uses float32 like the reference, because the thresholds are at exact powers of two.
  const float ratio =
      std::log(static_cast<float>(n) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const auto step = static_cast<int64_t>(ratio * static_cast<float>(half - exact));
  return base + std::min(half - 1, exact + step);
}

Umt5Encoder::Umt5Encoder(const Scope& scope, const Umt5Config& c, nn::ParamStore& store)
    : config_(c),
      precision_(store.stream().precision),
      embedding_(scope.sub("shared"), c.vocab_size, c.d_model),
      mapping_(scope.keep()) {
  const Scope blocks = scope.sub("encoder.block");
  streamed_ = store.stream_blocks(
      c.num_layers, [&](nn::ParamStore& probe, int64_t i) { load_layer(blocks.sub(i), probe); });
  for (int64_t i = 0; i < c.num_layers; ++i) {
    nn::ParamStore::BlockScope block(store, i);
    layers_.push_back(load_layer(blocks.sub(i), store));
    block.done();
  }
  final_norm_ = nn::Norm::rms(scope.sub("encoder.final_layer_norm"), store, c.d_model, c.eps);
  linears_ = store.take_linears();
}

Umt5Encoder::Layer Umt5Encoder::load_layer(const Scope& scope, nn::ParamStore& store) const {
  const Umt5Config& c = config_;
  const Scope block = scope.sub("layer");
  const Scope attention = block.sub("0.SelfAttention"), ff = block.sub("1.DenseReluDense");
  Layer layer;
  layer.encoder.norm1 = nn::Norm::rms(block.sub("0.layer_norm"), store, c.d_model, c.eps);
  layer.encoder.attention = nn::Attention(attention, store,
                                          {.q = "q",
                                           .k = "k",
                                           .v = "v",
                                           .out = "o",
                                           .channels = c.d_model,
                                           .heads = c.num_heads,
                                           .head_dim = c.d_kv,
                                           .biases = false});
  layer.position_bias =
      store.widened(attention.tensor("relative_attention_bias.weight", {c.num_buckets, c.num_heads}));
  layer.encoder.norm2 = nn::Norm::rms(block.sub("1.layer_norm"), store, c.d_model, c.eps);
  layer.encoder.mlp.gate = nn::Linear(ff.sub("wi_0"), store, c.d_model, c.d_ff, false);
  layer.encoder.mlp.up = nn::Linear(ff.sub("wi_1"), store, c.d_model, c.d_ff, false);
  layer.encoder.mlp.down = nn::Linear(ff.sub("wo"), store, c.d_ff, c.d_model, false);
  return layer;
}

// The lookup runs on the host, where the file is, because a prompt needs only a few rows of the table.
void Umt5Encoder::embed(const Tensor& ids, const Tensor& h, Stream& stream) const {
  make_on_host(stream, {h}, [&](Stream& host, std::span<const Tensor> to) { embedding_(ids, to[0], host); });
}

void Umt5Encoder::forward(const Tensor& ids, const Tensor& mask, const Tensor& out, Stream& stream) const {
  expect_same_weights("umt5", precision_, stream.precision);
  nn::expect_own_adapters("umt5", stream, *linears_);
  const Umt5Config& c = config_;
  const int64_t batch = ids.dim(0), length = ids.dim(1), rows = batch * length;
  expect_shape("umt5", "out", out, {batch, length, c.d_model});
  Arena& arena = *stream.arena;
  const ArenaScope scope(arena);

  const Tensor h = out.view({rows, c.d_model});  // the residual stream is in the output's memory
  const Tensor bias = arena.f32({c.num_heads, length, length});
  const Tensor bucket = arena.tensor(DType::i32, {2 * length - 1});
  std::vector<int32_t> buckets;
  for (int64_t d = 1 - length; d < length; ++d)
    buckets.push_back(static_cast<int32_t>(relative_position_bucket(d, c.num_buckets, c.max_distance)));
  upload(buckets.data(), bucket, stream);
  Tensor key_bias;
  if (mask.defined()) {
    expect_shape("umt5", "attention_mask", mask, {batch, length});
    key_bias = arena.f32({batch, length});
    std::vector<float> values;
    for (int64_t i = 0; i < rows && !stream.measuring(); ++i)
      values.push_back(mask.as<int64_t>()[i] ? 0.0f : std::numeric_limits<float>::lowest());
    upload(values.data(), key_bias, stream);
  }
  ProfileRange part(stream.hooks.profiler, "embedding", ProfileKind::elementwise);
  embed(ids.view({rows}), h, stream);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const Layer& layer = layers_[static_cast<size_t>(i)];
    runtime::checkpoint(stream);
    if (streamed_) streamed_->enter(i);
    part.next("position bias", ProfileKind::elementwise);
    ops::position_bias({.table = layer.position_bias, .bucket = bucket, .y = bias}, stream);
    part.done();
    layer.encoder(h, {.batch = batch, .key_bias = key_bias, .bias = bias}, stream);
    if (streamed_) streamed_->leave(i);
  }
  if (streamed_) streamed_->finish();
  part.next("norm", ProfileKind::norm);
  final_norm_(h, h, stream);
}

}  // namespace tachy
