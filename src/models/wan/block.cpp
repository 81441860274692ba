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
                   nn::ParamStore& store, std::span<const std::unique_ptr<WanBranch>> branches)
    : config_(c) {
  const int64_t dim = c.dim();
  store.fill(table, scope.tensor("scale_shift_table", {1, 6, dim}));
  self_ = load_attention(scope.sub("attn1"), c, store.stream().precision.joined, store);
  cross_ = load_attention(scope.sub("attn2"), c, false, store);
  if (c.cross_attn_norm) cross_norm_ = nn::Norm::layer(scope.sub("norm2"), store, dim, c.eps);
  for (const auto& branch : branches)
    if (branch->load(scope, index, store)) branches_.push_back(branch.get());
  mlp_.up = nn::Linear(scope.sub("ffn.net.0.proj"), store, dim, c.ffn_dim);
  mlp_.down = nn::Linear(scope.sub("ffn.net.2"), store, c.ffn_dim, dim);
}

void WanBlock::text_keys(const Tensor& text, const Tensor& k, const Tensor& v, Stream& stream) const {
  cross_.keys(text, k, v, stream);
}

// Models without a norm in the cross-attention have none that could write codes, and some branches read the
// norms' results in another form. On a GPU a norm writes codes only in whole packs.
bool WanBlock::takes_codes(const Stream& stream) const {
  const auto takes = [&](const nn::Linear& linear) { return linear.takes_codes(DType::f8_e4m3, stream); };
  return config_.dim() % 8 == 0 && config_.cross_attn_norm &&
         std::ranges::all_of(branches_, [](const WanBranch* branch) { return branch->takes_codes(); }) &&
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
