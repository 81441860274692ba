#include "models/wav2vec2/wav2vec2.h"

#include <cmath>

#include "nn/adapter_set.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/pace.h"

namespace tachy {
namespace {

nn::EncoderLayer load_layer(const Scope& scope, const Wav2Vec2Config& c, nn::ParamStore& store) {
  nn::EncoderLayer layer;
  layer.norm1 = nn::Norm::layer(scope.sub("layer_norm"), store, c.hidden_size, c.eps);
  layer.attention = nn::Attention(scope.sub("attention"), store,
                                  {.q = "q_proj",
                                   .k = "k_proj",
                                   .v = "v_proj",
                                   .out = "out_proj",
                                   .channels = c.hidden_size,
                                   .heads = c.num_heads,
                                   .head_dim = c.head_dim()});
  layer.norm2 = nn::Norm::layer(scope.sub("final_layer_norm"), store, c.hidden_size, c.eps);
  const Scope mlp = scope.sub("feed_forward");
  layer.mlp.up = nn::Linear(mlp.sub("intermediate_dense"), store, c.hidden_size, c.intermediate_size);
  layer.mlp.down = nn::Linear(mlp.sub("output_dense"), store, c.intermediate_size, c.hidden_size);
  layer.mlp.act = c.act;
  return layer;
}

}  // namespace

Wav2Vec2::Wav2Vec2(const Scope& scope, const Wav2Vec2Config& c, nn::ParamStore& store)
    : config_(c), precision_(store.stream().precision), mapping_(scope.keep()) {
  features_ = Wav2Vec2Features(scope.sub("feature_extractor"), c, store);
  const Scope projection = scope.sub("feature_projection"), encoder = scope.sub("encoder");
  feature_norm_ = nn::Norm::layer(projection.sub("layer_norm"), store, c.features(), c.eps);
  projection_ = nn::Linear(projection.sub("projection"), store, c.features(), c.hidden_size);
  position_ = Wav2Vec2Position(encoder.sub("pos_conv_embed.conv"), c, store);
  norm_ = nn::Norm::layer(encoder.sub("layer_norm"), store, c.hidden_size, c.eps);
  const Scope layers = encoder.sub("layers");
  for (int64_t i = 0; i < c.num_layers; ++i) layers_.push_back(load_layer(layers.sub(i), c, store));
  linears_ = store.take_linears();
}

std::vector<std::string> Wav2Vec2::ignorable() {
  return {"masked_spec_embed", "quantizer.", "project_q.", "project_hid.",
          "lm_head.",          "adapter.",   "projector.", "classifier."};
}

void Wav2Vec2::embed(const Tensor& samples, const Tensor& h, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const int64_t frames = h.dim(0), width = config_.features();
  const Tensor vectors = stream.arena->f32({config_.vectors(samples.dim(0)), width});
  const Tensor features = stream.arena->f32({frames, width});
  const Tensor normed = stream.arena->tensor(stream.precision.activation, {frames, width});
  ProfileRange part(stream.hooks.profiler, "convolutions", ProfileKind::convolution);
  features_.forward(samples, vectors, stream);
  part.next("interpolation", ProfileKind::elementwise);
  Wav2Vec2Features::interpolate(vectors, features, stream);
  part.next("projection", ProfileKind::linear);
  feature_norm_(features, normed, stream);
  projection_(normed, h, stream);
  part.next("position", ProfileKind::convolution);
  position_.add(h, stream);
}

// The states are also the residual stream: a layer reads the states of the previous layer in place.
void Wav2Vec2::norm_last(const Tensor& h, const Tensor& states, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const DType dtype = stream.precision.activation;
  const Tensor low = dtype == DType::f32 ? Tensor() : stream.arena->tensor(dtype, h.shape());
  const auto as_activations = [&](const Tensor& t) {
    if (!low.defined()) return t;
    ops::copy({.x = t, .y = low}, stream);
    return low;
  };
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim())));
  norm_(h, h, stream);
  const Tensor sum = stream.arena->f32({h.dim(0), h.dim(1)});
  Tensor x = h;
  for (size_t i = 0; i < layers_.size(); ++i) {
    runtime::checkpoint(stream);
    const nn::EncoderLayer& layer = layers_[i];
    layer.attention(as_activations(x), sum, x, {.key_bias = {}, .bias = {}, .scale = scale}, stream);
    layer.norm1(sum, sum, stream);
    layer.mlp(as_activations(sum), sum, stream, {.residual = sum});
    x = states.select(1, static_cast<int64_t>(i));
    layer.norm2(sum, x, stream);
  }
}

void Wav2Vec2::norm_first(const Tensor& h, const Tensor& states, Stream& stream) const {
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim())));
  for (size_t i = 0; i < layers_.size(); ++i) {
    runtime::checkpoint(stream);
    layers_[i](h, {.key_bias = {}, .bias = {}, .scale = scale}, stream);
    const Tensor state = states.select(1, static_cast<int64_t>(i));
    if (i + 1 < layers_.size())
      ops::copy({.x = h, .y = state}, stream);
    else
      norm_(h, state, stream);
  }
}

void Wav2Vec2::forward(const Tensor& samples, const Tensor& states, Stream& stream) const {
  expect_same_weights("audio encoder", precision_, stream.precision);
  nn::expect_own_adapters("audio encoder", stream, *linears_);
  expect_shape("audio encoder", "input_values", samples, {-1});
  expect_dtype("audio encoder", "input_values", samples, DType::f32);
  expect_shape("audio encoder", "states", states, {-1, config_.num_layers, config_.hidden_size});
  require(
      config_.vectors(samples.dim(0)) > 0,
      "audio encoder: {} samples are {:.4f} s of sound, too short for its convolutions: expected at least {}",
      samples.dim(0), static_cast<double>(samples.dim(0)) / Wav2Vec2Config::kSampleRate,
      config_.least_samples());
  require(states.dim(0) > 0, "audio encoder: expected 1 frame or more, got {}", states.dim(0));
  const ArenaScope scope(*stream.arena);
  const Tensor h = stream.arena->f32({states.dim(0), config_.hidden_size});
  embed(samples, h, stream);
  ProfileRange part(stream.hooks.profiler, "layers", ProfileKind::group);
  if (config_.norm_first)
    norm_first(h, states, stream);
  else
    norm_last(h, states, stream);
}

}  // namespace tachy
