#include "models/wan/block.h"

#include "ops/qk_norm_rope/qk_norm_rope.h"

namespace tachy {

void WanBlock::load_attentions(const Scope& scope, nn::ParamStore& store) {
  const int64_t dim = config_.dim();
  const auto linear = [&](const Scope& at) { return nn::Linear(at, store, dim, dim); };
  const auto norm = [&](const Scope& at, std::string_view name) {
    return store.widened(at.tensor(name, {dim}));
  };
  const Scope self = scope.sub("attn1"), cross = scope.sub("attn2");
  const Scope parts[] = {self.sub("to_q"), self.sub("to_k"), self.sub("to_v")};
  self_.qkv = nn::Linear::joined(parts, store, dim, dim);
  self_.out = linear(self.sub("to_out.0"));
  self_.norm_q = norm(self, "norm_q.weight"), self_.norm_k = norm(self, "norm_k.weight");
  cross_.q = linear(cross.sub("to_q"));
  cross_.k = linear(cross.sub("to_k"));
  cross_.v = linear(cross.sub("to_v"));
  cross_.out = linear(cross.sub("to_out.0"));
  cross_.norm_q = norm(cross, "norm_q.weight"), cross_.norm_k = norm(cross, "norm_k.weight");
  if (!config_.image_branch()) return;
  cross_.image_k = linear(cross.sub("add_k_proj"));
  cross_.image_v = linear(cross.sub("add_v_proj"));
  cross_.norm_image_k = norm(cross, "norm_added_k.weight");
}

WanBlock::WanBlock(const Scope& scope, const WanConfig& c, const Tensor& table, nn::ParamStore& store)
    : config_(c) {
  const int64_t dim = c.dim();
  store.fill(table, scope.tensor("scale_shift_table", {1, 6, dim}));
  load_attentions(scope, store);
  if (c.cross_attn_norm) {
    cross_norm_weight_ = store.widened(scope.tensor("norm2.weight", {dim}));
    cross_norm_bias_ = store.widened(scope.tensor("norm2.bias", {dim}));
  }
  mlp_.up = nn::Linear(scope.sub("ffn.net.0.proj"), store, dim, c.ffn_dim);
  mlp_.down = nn::Linear(scope.sub("ffn.net.2"), store, c.ffn_dim, dim);
}

void WanBlock::text_keys(const Tensor& text, const Tensor& k, const Tensor& v, Stream& stream) const {
  cross_.k(text, k, stream);
  cross_.v(text, v, stream);
  const Tensor keys = k.view({1, k.dim(0), k.dim(1)});
  ops::qk_norm_rope({.x = keys, .weight = cross_.norm_k, .eps = config_.eps, .y = keys}, stream);
}

void WanBlock::image_keys(const Tensor& image, const Tensor& k, const Tensor& v, Stream& stream) const {
  cross_.image_k(image, k, stream);
  cross_.image_v(image, v, stream);
  const Tensor keys = k.view({1, k.dim(0), k.dim(1)});
  ops::qk_norm_rope({.x = keys, .weight = cross_.norm_image_k, .eps = config_.eps, .y = keys}, stream);
}

Tensor WanBlock::block_modulation(const WanBlockInput& in, int64_t index) {
  return in.modulation.select(0, index).view({in.modulation.dim(1), 6, in.x.dim(1)});
}
WanModulation WanBlock::first_norm(const WanBlockInput& in, int64_t index) {
  const Tensor modulation = block_modulation(in, index);
  return {.scale = modulation.select(1, 1), .shift = modulation.select(1, 0)};
}

}  // namespace tachy
