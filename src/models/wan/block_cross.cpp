// The block's attention with what is not of its own tokens: text, picture, speech; and what actions add behind it.
#include <cmath>

#include "models/wan/block.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/layernorm_modulate/layernorm_modulate.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "ops/rmsnorm/rmsnorm.h"

namespace tachy {

void WanBlock::norm_queries(const Tensor& q, Stream& stream) const {
  if (stream.without.has(Optimisation::fused_rope)) {
    const Tensor rows = q.view({q.dim(0) * q.dim(1), q.dim(2)});
    return ops::rmsnorm({.x = rows, .weight = cross_.norm_q.weight, .eps = config_.eps, .y = rows}, stream);
  }
  ops::qk_norm_rope(
      {.x = q, .weight = cross_.norm_q.weight, .eps = config_.eps, .scale = query_scale(), .y = q}, stream);
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
  in.codes.defined() ? cross_.q(in.codes, q, stream) : cross_.q(u, q, stream);
  part.next("q norm", ProfileKind::norm);
  norm_queries(q.view({in.batch, in.tokens, dim}), stream);
  part.next("attention", ProfileKind::attention);
  for (int64_t b = 0; b < in.batch; ++b) context_attention(in, index, b, q, u, stream);
  part.next("out", ProfileKind::linear);
  cross_.out(u, q, stream);
  if (config_.audio_branch()) {
    part.next("residual + norm", ProfileKind::norm);
    nn::add_norm({.x = in.x,
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
    turn_by_routes(in, q, stream);
    part.next("audio attention", ProfileKind::attention);
    for (int64_t b = 0; b < in.batch; ++b) audio_attention(in, index, b, q, u, stream);
    part.next("audio out", ProfileKind::linear);
    audio_out_(u, q, stream);
  }
  if (action_.defined()) return add_actions(in, q, modulation, stream);
  part.next("residual + norm + modulate", ProfileKind::norm);
  nn::add_norm({.x = in.x,
                .u = q,
                .row = in.row,
                .kind = ops::NormKind::layer,
                .scale = modulation.select(1, 4),
                .shift = modulation.select(1, 3),
                .eps = config_.eps,
                .sum = in.x,
                .y = in.normed(),
                .y_scale = in.codes.scale},
               stream);
}

void WanBlock::add_actions(const WanBlockInput& in, const Tensor& y, const Tensor& modulation,
                           Stream& stream) const {
  const WanCausal& causal = *in.causal;
  ProfileRange part(stream.hooks.profiler, "residual", ProfileKind::norm);
  ops::gated_residual({.x = in.x, .u = y, .y = in.x}, stream);
  part.done();
  const WanActionConfig& c = config_.actions;
  const auto of_block = [&](const Tensor& t) { return t.defined() ? t.slice(0, 0, causal.frames) : t; };
  const auto seen = [&](const Tensor& t) { return t.defined() ? t.slice(0, 0, c.needed(causal.frames)) : t; };
  const WanActionInput& given = causal.actions;
  action_({.x = in.x,
           .frames = causal.frames,
           .first = causal.first,
           .mouse = seen(given.mouse),
           .keyboard = seen(given.keyboard),
           .mouse_cos = of_block(given.mouse_cos),
           .mouse_sin = of_block(given.mouse_sin),
           .keyboard_cos = of_block(given.keyboard_cos),
           .keyboard_sin = of_block(given.keyboard_sin),
           .mouse_ring = &causal.mouse,
           .keyboard_ring = &causal.keyboard,
           .parts = causal.parts,
           .keyboard_known = in.keyboard_known},
          action_module_, stream);
  part.next("norm + modulate", ProfileKind::norm);
  ops::layernorm_modulate({.x = in.x,
                           .scale = modulation.select(1, 4),
                           .shift = modulation.select(1, 3),
                           .row = in.row,
                           .eps = config_.eps,
                           .y = in.u},
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
                  .scale = score_scale(stream),
                  .out = out},
                 stream);
  if (context.image_k.defined())  // its own softmax over the image's keys, added
    ops::attention({.q = query,
                    .k = split(context.image_k.select(0, index)),
                    .v = split(context.image_v.select(0, index)),
                    .scale = score_scale(stream),
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

}  // namespace tachy
