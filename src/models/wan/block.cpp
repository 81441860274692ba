#include "models/wan/block.h"

#include <algorithm>

namespace tachy {
namespace {

nn::Attention load_attention(const Scope& scope, const WanConfig& c, bool joined, nn::ParamStore& store) {
  nn::Attention attention(scope, store,
                          {.q = "to_q",
                           .k = "to_k",
                           .v = "to_v",
                           .out = "to_out.0",
                           .channels = c.dim(),
                           .heads = c.num_heads,
                           .head_dim = c.head_dim,
                           .joined = joined});
  attention.norm_q = nn::Norm::rms(scope.sub("norm_q"), store, c.dim(), c.eps);
  attention.norm_k = nn::Norm::rms(scope.sub("norm_k"), store, c.dim(), c.eps);
  return attention;
}

}  // namespace

WanBlock::WanBlock(const Scope& scope, const WanConfig& c, int64_t index, const Tensor& table,
                   nn::ParamStore& store)
    : config_(c) {
  const int64_t dim = c.dim();
  store.fill(table, scope.tensor("scale_shift_table", {1, 6, dim}));
  const Scope cross = scope.sub("attn2");
  self_ = load_attention(scope.sub("attn1"), c, store.stream().precision.joined, store);
  cross_ = load_attention(cross, c, false, store);
  if (c.image_branch()) {
    image_.k = nn::Linear(cross.sub("add_k_proj"), store, dim, dim);
    image_.v = nn::Linear(cross.sub("add_v_proj"), store, dim, dim);
    image_.norm_k = nn::Norm::rms(cross.sub("norm_added_k"), store, dim, c.eps);
  }
  if (c.cross_attn_norm) cross_norm_ = nn::Norm::layer(scope.sub("norm2"), store, dim, c.eps);
  if (c.audio_branch()) {
    const Scope audio = scope.sub("audio_cross_attn");
    audio_norm_ = nn::Norm::layer(scope.sub("norm_x"), store, dim, c.eps);
    audio_q_ = nn::Linear(audio.sub("q_linear"), store, dim, dim);
    audio_kv_ = nn::Linear(audio.sub("kv_linear"), store, c.audio_dim, 2 * dim);
    audio_out_ = nn::Linear(audio.sub("proj"), store, dim, dim);
  }
  if (c.actions.in_block(index)) {
    const auto& blocks = c.actions.blocks;
    action_module_ = std::find(blocks.begin(), blocks.end(), index) - blocks.begin();
    action_ = WanAction(scope.sub("action_model"), c.actions, dim, store);
  }
  mlp_.up = nn::Linear(scope.sub("ffn.net.0.proj"), store, dim, c.ffn_dim);
  mlp_.down = nn::Linear(scope.sub("ffn.net.2"), store, c.ffn_dim, dim);
}

void WanBlock::text_keys(const Tensor& text, const Tensor& k, const Tensor& v, Stream& stream) const {
  cross_.keys(text, k, v, stream);
}
void WanBlock::image_keys(const Tensor& image, const Tensor& k, const Tensor& v, Stream& stream) const {
  image_.keys(image, k, v, stream);
}

void WanBlock::audio_keys(const Tensor& tokens, const Tensor& kv, Stream& stream) const {
  audio_kv_(tokens, kv, stream);
}

// Speech and actions read the norms' results otherwise, and where the cross-attention has no norm there is none to write codes.
// A GPU's norm writes whole packs of them.
bool WanBlock::takes_codes(const Stream& stream) const {
  const auto takes = [&](const nn::Linear& linear) { return linear.takes_codes(DType::f8_e4m3, stream); };
  return config_.dim() % 8 == 0 && config_.cross_attn_norm && !config_.audio_branch() && !action_.defined() &&
         takes(self_.qkv.defined() ? self_.qkv : self_.q) && takes(cross_.q) && takes(mlp_.up);
}

Tensor WanBlock::block_modulation(const WanBlockInput& in, int64_t index) {
  return in.modulation.select(0, index).view({in.modulation.dim(1), 6, in.x.dim(1)});
}
WanModulation WanBlock::first_norm(const WanBlockInput& in, int64_t index) {
  const Tensor modulation = block_modulation(in, index);
  return {.scale = modulation.select(1, 1), .shift = modulation.select(1, 0)};
}

}  // namespace tachy
