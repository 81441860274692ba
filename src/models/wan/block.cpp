#include "models/wan/block.h"

#include <algorithm>
#include <cmath>

#include "ops/attention/attention.h"
#include "ops/layernorm_modulate/layernorm_modulate.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"

namespace tachy {
namespace {

// The FFN's hidden activations are wide (8,960 to 13,824 channels): they live for this many tokens at a time.
constexpr int64_t kFeedForwardRows = 8192;

}  // namespace

WanBlock::Attention WanBlock::load_attention(const Scope& scope, int64_t dim, Joined joined,
                                             nn::ParamStore& store) {
  Attention a;
  if (joined == Joined::qkv && store.on_gpu()) {
    const Scope parts[] = {scope.sub("to_q"), scope.sub("to_k"), scope.sub("to_v")};
    a.qkv = nn::Linear::joined(parts, store, dim, dim);
  } else {
    a.q = nn::Linear(scope.sub("to_q"), store, dim, dim);
    a.k = nn::Linear(scope.sub("to_k"), store, dim, dim);
    a.v = nn::Linear(scope.sub("to_v"), store, dim, dim);
  }
  a.out = nn::Linear(scope.sub("to_out.0"), store, dim, dim);
  a.norm_q = store.widened(scope.tensor("norm_q.weight", {dim}));
  a.norm_k = store.widened(scope.tensor("norm_k.weight", {dim}));
  return a;
}

WanBlock::WanBlock(const Scope& scope, const WanConfig& c, const Tensor& table, nn::ParamStore& store)
    : config_(c) {
  const int64_t dim = c.dim();
  store.fill(table, scope.tensor("scale_shift_table", {1, 6, dim}));
  self_ = load_attention(scope.sub("attn1"), dim, Joined::qkv, store);
  cross_ = load_attention(scope.sub("attn2"), dim, Joined::no, store);
  if (c.image_branch()) {
    const Scope cross = scope.sub("attn2");
    image_k_ = nn::Linear(cross.sub("add_k_proj"), store, dim, dim);
    image_v_ = nn::Linear(cross.sub("add_v_proj"), store, dim, dim);
    norm_image_k_ = store.widened(cross.tensor("norm_added_k.weight", {dim}));
  }
  if (c.cross_attn_norm) {
    cross_norm_weight_ = store.widened(scope.tensor("norm2.weight", {dim}));
    cross_norm_bias_ = store.widened(scope.tensor("norm2.bias", {dim}));
  }
  up_ = nn::Linear(scope.sub("ffn.net.0.proj"), store, dim, c.ffn_dim);
  down_ = nn::Linear(scope.sub("ffn.net.2"), store, c.ffn_dim, dim);
}

void WanBlock::text_keys(const Tensor& text, const Tensor& k, const Tensor& v, Stream& stream) const {
  cross_.k(text, k, stream);
  cross_.v(text, v, stream);
  const Tensor keys = k.view({1, k.dim(0), k.dim(1)});
  ops::qk_norm_rope({.x = keys, .weight = cross_.norm_k, .eps = config_.eps, .y = keys}, stream);
}

void WanBlock::image_keys(const Tensor& image, const Tensor& k, const Tensor& v, Stream& stream) const {
  image_k_(image, k, stream);
  image_v_(image, v, stream);
  const Tensor keys = k.view({1, k.dim(0), k.dim(1)});
  ops::qk_norm_rope({.x = keys, .weight = norm_image_k_, .eps = config_.eps, .y = keys}, stream);
}

Tensor WanBlock::block_modulation(const WanBlockInput& in, int64_t index) {
  return in.modulation.select(0, index).view({in.modulation.dim(1), 6, in.x.dim(1)});
}
WanModulation WanBlock::first_norm(const WanBlockInput& in, int64_t index) {
  const Tensor modulation = block_modulation(in, index);
  return {.scale = modulation.select(1, 1), .shift = modulation.select(1, 0)};
}

void WanBlock::forward(const WanBlockInput& in, int64_t index, Stream& stream) const {
  const Tensor modulation = block_modulation(in, index);
  ProfileRange part(stream.profiler, "self-attention", ProfileKind::group);
  self_attention(in, modulation, stream);
  part.next("cross-attention", ProfileKind::group);
  cross_attention(in, index, stream);
  part.next("feed-forward", ProfileKind::group);
  feed_forward(in, modulation, stream);
}

void WanBlock::self_attention(const WanBlockInput& in, const Tensor& modulation, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const int64_t dim = config_.dim(), rows = in.batch * in.tokens, heads = config_.num_heads;
  const Tensor u = stream.arena->f32({rows, dim});
  const Tensor q = stream.arena->f32({rows, dim}), k = stream.arena->f32({rows, dim}),
               v = stream.arena->f32({rows, dim});
  const auto sequence = [&](const Tensor& t) { return t.view({in.batch, in.tokens, dim}); };
  const auto split = [&](const Tensor& t) { return t.view({in.batch, in.tokens, heads, config_.head_dim}); };

  ProfileRange part(stream.profiler, "norm + modulate", ProfileKind::norm);
  ops::layernorm_modulate({.x = in.x,
                           .scale = modulation.select(1, 1),
                           .shift = modulation.select(1, 0),
                           .row = in.row,
                           .eps = config_.eps,
                           .y = u},
                          stream);
  part.next("q, k, v", ProfileKind::linear);
  self_.q(u, q, stream);
  self_.k(u, k, stream);
  self_.v(u, v, stream);
  part.next("q, k norm + rope", ProfileKind::norm);
  for (const auto& [t, weight] : {std::pair{q, self_.norm_q}, std::pair{k, self_.norm_k}})
    ops::qk_norm_rope({.x = sequence(t),
                       .weight = weight,
                       .eps = config_.eps,
                       .heads = static_cast<int>(heads),
                       .cos = in.cos,
                       .sin = in.sin,
                       .y = sequence(t)},
                      stream);
  part.next("attention", ProfileKind::attention);
  ops::attention({.q = split(q), .k = split(k), .v = split(v), .scale = attention_scale(), .out = split(u)},
                 stream);
  part.next("out + gated residual", ProfileKind::linear);
  self_.out(u, in.x, stream, {.gate = modulation.select(1, 2), .row = in.row, .residual = in.x});
}

void WanBlock::cross_attention(const WanBlockInput& in, int64_t index, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const int64_t dim = config_.dim(), rows = in.batch * in.tokens;
  const Tensor u = stream.arena->f32({rows, dim}), q = stream.arena->f32({rows, dim});
  const Tensor source = config_.cross_attn_norm ? u : in.x;
  ProfileRange part(stream.profiler, "norm", ProfileKind::norm);
  if (config_.cross_attn_norm)
    ops::layernorm_modulate(
        {.x = in.x, .weight = cross_norm_weight_, .bias = cross_norm_bias_, .eps = config_.eps, .y = u},
        stream);
  part.next("q", ProfileKind::linear);
  cross_.q(source, q, stream);
  part.next("q norm", ProfileKind::norm);
  const Tensor queries = q.view({in.batch, in.tokens, dim});
  ops::qk_norm_rope({.x = queries, .weight = cross_.norm_q, .eps = config_.eps, .y = queries}, stream);

  part.next("attention", ProfileKind::attention);
  for (int64_t b = 0; b < in.batch; ++b) context_attention(in, index, b, q, u, attention_scale(), stream);
  part.next("out + residual", ProfileKind::linear);
  cross_.out(u, in.x, stream, {.residual = in.x});
}

float WanBlock::attention_scale() const { return 1.0f / std::sqrt(static_cast<float>(config_.head_dim)); }

void WanBlock::context_attention(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q,
                                 const Tensor& u, float scale, Stream& stream) const {
  const auto split = [&](const Tensor& t) {
    return t.view({1, t.dim(0), config_.num_heads, config_.head_dim});
  };
  const WanContext& context = *in.contexts[static_cast<size_t>(b)];
  const Tensor out = split(u.slice(0, b * in.tokens, (b + 1) * in.tokens));
  const Tensor query = split(q.slice(0, b * in.tokens, (b + 1) * in.tokens));
  ops::attention({.q = query,
                  .k = split(context.k.select(0, index)),
                  .v = split(context.v.select(0, index)),
                  .key_bias = context.key_bias,
                  .finite_bias = true,  // the logarithm of how many equal rows a key stands for
                  .scale = scale,
                  .out = out},
                 stream);
  if (context.image_k.defined())  // its own softmax over the image's keys, added
    ops::attention({.q = query,
                    .k = split(context.image_k.select(0, index)),
                    .v = split(context.image_v.select(0, index)),
                    .scale = scale,
                    .accumulate = true,
                    .out = out},
                   stream);
}

void WanBlock::feed_forward(const WanBlockInput& in, const Tensor& modulation, Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  const int64_t dim = config_.dim(), rows = in.batch * in.tokens, chunk = std::min(rows, kFeedForwardRows);
  const Tensor u = stream.arena->f32({chunk, dim}), hidden = stream.arena->f32({chunk, config_.ffn_dim});
  ProfileRange part(stream.profiler);
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t end = std::min(rows, begin + chunk), count = end - begin;
    const Tensor x = in.x.slice(0, begin, end), normed = u.slice(0, 0, count),
                 wide = hidden.slice(0, 0, count);
    const Tensor row = in.row.defined() ? in.row.slice(0, begin, end) : Tensor();
    part.next("norm + modulate", ProfileKind::norm);
    ops::layernorm_modulate({.x = x,
                             .scale = modulation.select(1, 4),
                             .shift = modulation.select(1, 3),
                             .row = row,
                             .eps = config_.eps,
                             .y = normed},
                            stream);
    part.next("up + gelu", ProfileKind::linear);
    up_(normed, wide, stream, {.act = ops::Activation::gelu_tanh});
    part.next("down + gated residual", ProfileKind::linear);
    down_(wide, x, stream, {.gate = modulation.select(1, 5), .row = row, .residual = x});
  }
}

}  // namespace tachy
