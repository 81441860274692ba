// The block in as few passes over memory as there can be: one product for q, k and v, one pass for both norms
// and the rope, and every residual add in one pass with the norm that follows it:
//   q‖k‖v = u·W;  q, k = rope(norm(q, k));  a = attention          u = LN(x)(1 + M1) + M0: see below
//   x += M2·(a·Wo), u = LN_affine(x);  q = norm(u·Wq);  a = attention with the text's keys
//   [x += a·Wo,     u = LN_affine(x);  a = attention of each latent frame with its audio tokens: InfiniteTalk's]
//   x += a·Wo,      u = LN(x)(1 + M4) + M3;  f = FFN(u), in pieces of rows where its width asks for it
//   x += M5·f,      u = LN(x)(1 + M1') + M0', the next block's (or the head's)
// x is the residual stream (float32, or the activations' dtype), everything else the activations' dtype.
#include <cmath>

#include "models/wan/block.h"
#include "ops/add_norm/add_norm.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "runtime/attend_by_heads.h"
#include "runtime/pace.h"

namespace tachy {

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
  const Tensor& u = in.u;
  const ArenaScope scope(*stream.arena);
  ProfileRange part(stream.hooks.profiler, "q, k, v", ProfileKind::linear);
  const nn::Attention::Projected made = self_.project(u, stream);
  part.next("q, k norm + rope", ProfileKind::norm);
  const Tensor q = nn::Attention::by_batch(made.q, in.batch), k = nn::Attention::by_batch(made.k, in.batch);
  ops::qk_norm_rope({.x = q,
                     .weight = self_.norm_q.weight,
                     .eps = config_.eps,
                     .scale = query_scale(),
                     .heads = static_cast<int>(config_.num_heads),
                     .cos = in.cos,
                     .sin = in.sin,
                     .y = q,
                     .x2 = k,
                     .weight2 = self_.norm_k.weight,
                     .y2 = k},
                    stream);
  const bool choosing = in.keys.keep > 0;
  part.next(choosing ? "choose blocks" : "attention", ProfileKind::attention);
  runtime::attend_by_heads(in.comm,
                           {.q = self_.by_heads(made.q, in.batch),
                            .k = self_.by_heads(made.k, in.batch),
                            .v = self_.by_heads(made.v, in.batch),
                            .out = self_.by_heads(u, in.batch)},
                           stream, [&](const runtime::HeadTensors& t) {
                             const ArenaScope lists(*stream.arena);
                             const ops::BlockLists blocks = in.keys.for_heads(t.q, t.k, stream);
                             if (choosing) part.next("attention", ProfileKind::attention);
                             nn::attention_in_pieces({.q = t.q,
                                                      .k = t.k,
                                                      .v = t.v,
                                                      .scale = ops::kPowersOfTwo,
                                                      .blocks = blocks,
                                                      .eight_bits = stream.precision.attention_int8,
                                                      .out = t.out},
                                                     stream);
                           });
  runtime::checkpoint(stream);
  part.next("out", ProfileKind::linear);
  const Tensor y(made.q.data, u.dtype, u.shape(), u.device);  // q, k and v are done with
  self_.out(u, y, stream);
  part.next("gated residual + norm", ProfileKind::norm);
  if (config_.cross_attn_norm)
    ops::add_norm({.x = in.x,
                   .u = y,
                   .gate = modulation.select(1, 2),
                   .row = in.row,
                   .kind = ops::NormKind::layer,
                   .weight = cross_norm_.weight,
                   .bias = cross_norm_.bias,
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
  ops::qk_norm_rope({.x = queries,
                     .weight = cross_.norm_q.weight,
                     .eps = config_.eps,
                     .scale = query_scale(),
                     .y = queries},
                    stream);
  part.next("attention", ProfileKind::attention);
  for (int64_t b = 0; b < in.batch; ++b) context_attention(in, index, b, q, u, stream);
  part.next("out", ProfileKind::linear);
  cross_.out(u, q, stream);
  if (config_.audio_branch()) {
    part.next("residual + norm", ProfileKind::norm);
    ops::add_norm({.x = in.x,
                   .u = q,
                   .kind = ops::NormKind::layer,
                   .weight = audio_norm_.weight,
                   .bias = audio_norm_.bias,
                   .eps = audio_norm_.eps,
                   .sum = in.x,
                   .y = u},
                  stream);
    part.next("audio q", ProfileKind::linear);
    audio_q_(u, q, stream);
    part.next("audio attention", ProfileKind::attention);
    for (int64_t b = 0; b < in.batch; ++b) audio_attention(in, index, b, q, u, stream);
    part.next("audio out", ProfileKind::linear);
    audio_out_(u, q, stream);
  }
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
  const auto split = [&](const Tensor& t) { return cross_.by_heads(t, 1); };
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

void WanBlock::audio_attention(const WanBlockInput& in, int64_t index, int64_t b, const Tensor& q,
                               const Tensor& u, Stream& stream) const {
  const WanAudio& audio = *in.audio[static_cast<size_t>(b)];
  const int64_t dim = config_.dim();
  // A latent frame's tokens lie together, so frames are the batch of one attention.
  const auto by_frames = [&](const Tensor& t) { return cross_.by_heads(t, audio.frames); };
  const auto of_item = [&](const Tensor& t) {
    return by_frames(t.slice(0, b * in.tokens, (b + 1) * in.tokens));
  };
  const Tensor kv = audio.kv.select(0, index);
  ops::attention({.q = of_item(q),
                  .k = by_frames(kv.slice(1, 0, dim)),
                  .v = by_frames(kv.slice(1, dim, 2 * dim)),
                  .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim)),
                  .out = of_item(u)},
                 stream);
}

void WanBlock::feed_forward(const WanBlockInput& in, const Tensor& modulation, const WanModulation& next,
                            bool last, Stream& stream) const {
  const int64_t rows = in.batch * in.tokens;
  // The hidden activations may take what q, k and v did, and their codes what those of u did.
  const int64_t value = dtype_size(stream.precision.activation),
                code = in_eight_bits(stream.precision.products) ? 1 : 0;
  const int64_t free_rows = rows * (3 * value + code) * config_.dim() / ((value + code) * config_.ffn_dim);
  mlp_(in.u, in.u, stream, {.free_rows = free_rows});
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
