#include "models/clip_vision/clip_vision.h"

#include <cmath>

#include "nn/adapter_set.h"
#include "ops/elementwise/elementwise.h"
#include "ops/patchify/patchify.h"
#include "runtime/pace.h"

namespace tachy {
namespace {

nn::EncoderLayer load_layer(const Scope& scope, const ClipVisionConfig& c, nn::ParamStore& store) {
  nn::EncoderLayer layer;
  layer.norm1 = nn::Norm::layer(scope.sub("layer_norm1"), store, c.hidden_size, c.eps);
  layer.attention = nn::Attention(scope.sub("self_attn"), store,
                                  {.q = "q_proj",
                                   .k = "k_proj",
                                   .v = "v_proj",
                                   .out = "out_proj",
                                   .channels = c.hidden_size,
                                   .heads = c.num_heads,
                                   .head_dim = c.head_dim()});
  layer.norm2 = nn::Norm::layer(scope.sub("layer_norm2"), store, c.hidden_size, c.eps);
  layer.mlp.up = nn::Linear(scope.sub("mlp.fc1"), store, c.hidden_size, c.intermediate_size);
  layer.mlp.down = nn::Linear(scope.sub("mlp.fc2"), store, c.intermediate_size, c.hidden_size);
  layer.mlp.act = c.act;
  return layer;
}

}  // namespace

ClipVision::ClipVision(const Scope& scope, const ClipVisionConfig& c, nn::ParamStore& store)
    : config_(c), precision_(store.stream().precision), mapping_(scope.keep()) {
  const Scope model = scope.sub("vision_model"), embeddings = model.sub("embeddings");
  class_ = store.widened(embeddings.tensor("class_embedding", {c.hidden_size}));
  positions_ = store.widened(embeddings.tensor("position_embedding.weight", {c.tokens(), c.hidden_size}));
  patches_ = nn::Linear::from_kernel(embeddings.sub("patch_embedding"), store,
                                     {c.hidden_size, 3, c.patch_size, c.patch_size}, /*has_bias=*/false);
  // The files use this spelling.
  pre_norm_ = nn::Norm::layer(model.sub("pre_layrnorm"), store, c.hidden_size, c.eps);
  const Scope layers = model.sub("encoder.layers");
  for (int64_t i = 0; i + 1 < c.num_layers; ++i) layers_.push_back(load_layer(layers.sub(i), c, store));
  linears_ = store.take_linears();
}

std::vector<std::string> ClipVision::ignorable(const ClipVisionConfig& c) {
  return {fmt::format("vision_model.encoder.layers.{}.", c.num_layers - 1),
          "vision_model.post_layernorm.",
          "vision_model.embeddings.position_ids",
          "visual_projection.",
          "text_projection.",
          "text_model.",
          "logit_scale",
          "visual.head",
          "textual.",
          "log_scale"};
}

// The products of the patches are added to the positions. The class token has no product.
void ClipVision::embed(const Tensor& pixels, const Tensor& h, Stream& stream) const {
  const ClipVisionConfig& c = config_;
  const int64_t batch = pixels.dim(0), patches = c.tokens() - 1, side = c.image_size, p = c.patch_size;
  const ArenaScope scope(*stream.arena);
  const Tensor flat = stream.arena->tensor(stream.precision.activation, {batch, patches, 3 * p * p});
  ops::patchify(
      {.x = pixels.view({batch, 3, 1, side, side}), .patch_t = 1, .patch_h = p, .patch_w = p, .y = flat},
      stream);
  for (int64_t b = 0; b < batch; ++b) {
    const Tensor rows = h.select(0, b);
    ops::LincombArgs first{.count = 2, .out = rows.select(0, 0)};
    first.terms[0].x = class_, first.terms[1].x = positions_.select(0, 0);
    ops::lincomb(first, stream);
    patches_(flat.select(0, b), rows.slice(0, 1, c.tokens()), stream,
             {.residual = positions_.slice(0, 1, c.tokens())});
  }
}

void ClipVision::forward(const Tensor& pixels, const Tensor& out, Stream& stream) const {
  expect_same_weights("image encoder", precision_, stream.precision);
  nn::expect_own_adapters("image encoder", stream, *linears_);
  const ClipVisionConfig& c = config_;
  const int64_t batch = pixels.dim(0), tokens = c.tokens();
  expect_shape("image encoder", "pixel_values", pixels, {batch, 3, c.image_size, c.image_size});
  expect_shape("image encoder", "out", out, {batch, tokens, c.hidden_size});
  ProfileRange part(stream.hooks.profiler, "embedding", ProfileKind::linear);
  embed(pixels, out, stream);
  const Tensor h = out.view({batch * tokens, c.hidden_size});  // the residual stream is in the output
  part.next("norm", ProfileKind::norm);
  pre_norm_(h, h, stream);
  part.done();
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.head_dim())));
  for (const nn::EncoderLayer& layer : layers_) {
    runtime::checkpoint(stream);
    layer(h, {.batch = batch, .key_bias = {}, .bias = {}, .scale = scale}, stream);
  }
}

}  // namespace tachy
