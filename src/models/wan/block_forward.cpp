// The block in as few passes over memory as there can be: one product for q, k and v, one pass for both norms
// and the rope, and every residual add in one pass with the norm that follows it:
//   q‖k‖v = u·W;  q, k = rope(norm(q, k));  a = attention          u = LN(x)(1 + M1) + M0: see below
//   x += M2·(a·Wo), u = LN_affine(x);  q = norm(u·Wq);  a = attention with the text's keys
//   x += a·Wo,      u = LN(x)(1 + M4) + M3;  f = FFN(u), in pieces of rows where its width asks for it
//   x += M5·f,      u = LN(x)(1 + M1') + M0', the next block's (or the head's)
// x is the residual stream (float32, or the activations' dtype), everything else the activations' dtype.
#include <algorithm>
#include <cmath>

#include "models/wan/block.h"
#include "ops/add_norm/add_norm.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "runtime/pace.h"

namespace tachy {
namespace {

// Attention of long videos, an item of the batch and some heads at a time (runtime/pace.h): heads know
// nothing of one another.
void attention_in_pieces(const ops::AttentionArgs& a, Stream& stream) {
  const int64_t batch = a.q.dim(0), heads = a.q.dim(2);
  const double item = 4.0 * static_cast<double>(a.q.dim(1)) * static_cast<double>(a.k.dim(1)) *
                      static_cast<double>(heads * a.q.dim(3));
  if (runtime::heads_at_a_time(stream, heads, item * static_cast<double>(batch)) == heads)
    return ops::attention(a, stream);
  const int64_t some = runtime::heads_at_a_time(stream, heads, item);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; h += some) {
      if (b + h > 0) runtime::checkpoint(stream);
      const auto part = [&](const Tensor& t) {
        return t.slice(0, b, b + 1).slice(2, h, std::min(heads, h + some));
      };
      ops::attention({.q = part(a.q), .k = part(a.k), .v = part(a.v), .scale = a.scale, .out = part(a.out)},
                     stream);
    }
}

}  // namespace

float WanBlock::query_scale() const {
  return 1.0f / std::sqrt(static_cast<float>(config_.head_dim)) * 1.44269504088896340736f;
}

void WanBlock::forward(const WanBlockInput& in, const WanModulation& next, int64_t index,
                       Stream& stream) const {
  const Tensor modulation = block_modulation(in, index);
  ProfileRange part(stream.hooks.profiler, "self-attention", ProfileKind::group);
  self_attention(in, modulation, stream);
  part.next("cross-attention", ProfileKind::group);
  cross_attention(in, modulation, index, stream);
  part.next("feed-forward", ProfileKind::group);
  feed_forward(in, modulation, next, index + 1 == config_.num_layers, stream);
}

void WanBlock::self_attention(const WanBlockInput& in, const Tensor& modulation, Stream& stream) const {
  Arena& arena = *stream.arena;
  const Tensor& u = in.u;
  const ArenaScope scope(arena);
  const int64_t dim = config_.dim(), rows = in.batch * in.tokens, heads = config_.num_heads;
  const Tensor qkv = arena.tensor(stream.precision.activation, {rows, 3 * dim});
  // Columns of qkv as [batch, tokens, dim], and by heads.
  const auto part_of = [&](int64_t i) {
    return qkv.view({in.batch, in.tokens, 3 * dim}).slice(2, i * dim, (i + 1) * dim);
  };
  const auto split = [&](int64_t i) {
    return qkv.view({in.batch, in.tokens, 3 * heads, config_.head_dim}).slice(2, i * heads, (i + 1) * heads);
  };
  ProfileRange part(stream.hooks.profiler, "q, k, v", ProfileKind::linear);
  self_.qkv(u, qkv, stream);
  part.next("q, k norm + rope", ProfileKind::norm);
  ops::qk_norm_rope({.x = part_of(0),
                     .weight = self_.norm_q,
                     .eps = config_.eps,
                     .scale = query_scale(),
                     .heads = static_cast<int>(heads),
                     .cos = in.cos,
                     .sin = in.sin,
                     .y = part_of(0),
                     .x2 = part_of(1),
                     .weight2 = self_.norm_k,
                     .y2 = part_of(1)},
                    stream);
  part.next("attention", ProfileKind::attention);
  attention_in_pieces({.q = split(0),
                       .k = split(1),
                       .v = split(2),
                       .scale = ops::kPowersOfTwo,
                       .out = u.view({in.batch, in.tokens, heads, config_.head_dim})},
                      stream);
  runtime::checkpoint(stream);
  part.next("out", ProfileKind::linear);
  const Tensor y =
      Tensor(qkv.data, stream.precision.activation, {rows, dim}, qkv.device);  // q, k, v are done with
  self_.out(u, y, stream);
  part.next("gated residual + norm", ProfileKind::norm);
  if (config_.cross_attn_norm)
    ops::add_norm({.x = in.x,
                   .u = y,
                   .gate = modulation.select(1, 2),
                   .row = in.row,
                   .kind = ops::NormKind::layer,
                   .weight = cross_norm_weight_,
                   .bias = cross_norm_bias_,
                   .eps = config_.eps,
                   .sum = in.x,
                   .y = u},
                  stream);
  else
    ops::gated_residual({.x = in.x, .u = y, .gate = modulation.select(1, 2), .row = in.row, .y = in.x},
                        stream);
}

void WanBlock::cross_attention(const WanBlockInput& in, const Tensor& modulation, int64_t index,
                               Stream& stream) const {
  Arena& arena = *stream.arena;
  const Tensor& u = in.u;
  const ArenaScope scope(arena);
  const int64_t dim = config_.dim(), rows = in.batch * in.tokens;
  const Tensor q = arena.tensor(stream.precision.activation, {rows, dim});
  ProfileRange part(stream.hooks.profiler);
  if (!config_.cross_attn_norm) {  // no published model: the stream itself, in the activations' dtype
    part.next("copy", ProfileKind::elementwise);
    ops::copy({.x = in.x, .y = u}, stream);
  }
  part.next("q", ProfileKind::linear);
  cross_.q(u, q, stream);
  part.next("q norm", ProfileKind::norm);
  const Tensor queries = q.view({in.batch, in.tokens, dim});
  ops::qk_norm_rope(
      {.x = queries, .weight = cross_.norm_q, .eps = config_.eps, .scale = query_scale(), .y = queries},
      stream);
  part.next("attention", ProfileKind::attention);
  for (int64_t b = 0; b < in.batch; ++b) context_attention(in, index, b, q, u, stream);
  part.next("out", ProfileKind::linear);
  cross_.out(u, q, stream);
  part.next("residual + norm + modulate", ProfileKind::norm);
  ops::add_norm({.x = in.x,
                 .u = q,
                 .row = in.row,
                 .kind = ops::NormKind::layer,
                 .scale = modulation.select(1, 4),
                 .shift = modulation.select(1, 3),
                 .eps = config_.eps,
                 .sum = in.x,
                 .y = u},
                stream);
}

void WanBlock::context_attention(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q,
                                 const Tensor& u, Stream& stream) const {
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
                  .scale = ops::kPowersOfTwo,
                  .out = out},
                 stream);
  if (context.image_k.defined())  // its own softmax over the image's keys, added
    ops::attention({.q = query,
                    .k = split(context.image_k.select(0, index)),
                    .v = split(context.image_v.select(0, index)),
                    .scale = ops::kPowersOfTwo,
                    .accumulate = true,
                    .out = out},
                   stream);
}

void WanBlock::feed_forward(const WanBlockInput& in, const Tensor& modulation, const WanModulation& next,
                            bool last, Stream& stream) const {
  const int64_t rows = in.batch * in.tokens;
  // The hidden activations may take what q, k and v did.
  mlp_(in.u, in.u, stream, rows * 3 * config_.dim() / config_.ffn_dim);
  ProfileRange part(stream.hooks.profiler, "gated residual + next norm", ProfileKind::norm);
  ops::add_norm({.x = in.x,
                 .u = in.u,
                 .gate = modulation.select(1, 5),
                 .row = in.row,
                 .kind = ops::NormKind::layer,
                 .scale = next.scale,
                 .shift = next.shift,
                 .eps = config_.eps,
                 .sum = last ? Tensor() : in.x,
                 .y = in.u},
                stream);
}

}  // namespace tachy
