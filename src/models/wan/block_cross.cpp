// The block's attention to other tokens than its own: the text's, and those that branches add at the same
// point or after it.
#include "models/wan/block.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/elementwise.h"
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
  if (!config_.cross_attn_norm) {  // no published model: u is the residual stream, in the activations' dtype
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
  part.done();
  WanPending sum{.y = q};
  for (const WanBranch* branch : branches_) branch->after_cross_attention(in, index, sum, stream);
  add_and_norm(in, sum, {.scale = modulation.select(1, 4), .shift = modulation.select(1, 3)}, false, stream);
}

void WanBlock::add_and_norm(const WanBlockInput& in, const WanPending& sum, const WanModulation& to,
                            bool head, Stream& stream) const {
  const char* name = !sum.y.defined()     ? "norm + modulate"
                     : sum.gate.defined() ? "gated residual + next norm"
                                          : "residual + norm + modulate";
  const ProfileRange part(stream.hooks.profiler, name, ProfileKind::norm);
  if (!sum.y.defined())  // a branch has added it already
    return ops::layernorm_modulate(
        {.x = in.x, .scale = to.scale, .shift = to.shift, .row = in.row, .eps = config_.eps, .y = in.u},
        stream);
  nn::add_norm({.x = in.x,
                .u = sum.y,
                .gate = sum.gate,
                .row = in.row,
                .kind = ops::NormKind::layer,
                .scale = to.scale,
                .shift = to.shift,
                .eps = config_.eps,
                .sum = head && !stream.without.has(Optimisation::fused_norms) ? Tensor() : in.x,
                .y = head ? in.u : in.normed(),
                .y_scale = head ? Tensor() : in.codes.scale},
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
                  .finite_bias = true,  // the logarithm of the number of rows for which a key stands
                  .scale = score_scale(config_, stream),
                  .out = out},
                 stream);
  for (const WanBranch* branch : branches_) branch->beside_text(in, index, b, query, out, stream);
}

}  // namespace tachy
