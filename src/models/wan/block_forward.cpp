// The block in as few passes over memory as possible: one product makes q, k and v, one pass does both norms
// and the rope, and one pass does each residual add together with the norm that follows it:
//   q‖k‖v = u·W;  q, k = rope(norm(q, k));  a = attention          u = LN(x)(1 + M1) + M0: see below
//   x += M2·(a·Wo), u = LN_affine(x);  q = norm(u·Wq);  a = attention with the text's keys
//   x += a·Wo,      u = LN(x)(1 + M4) + M3;  f = FFN(u), in pieces of rows where its width asks for it
//   x += M5·f,      u = LN(x)(1 + M1') + M0', the next block's (or the head's)
// x is the residual stream (float32, or the activations' dtype); everything else has the activations' dtype.
// Each of these fusions can be switched off (Stream::without), which leaves separate passes. Branches act
// before and after a residual add (branch.h). If a branch needs x itself, the add and the norm are separate
// passes.
#include <algorithm>
#include <cmath>

#include "models/wan/block.h"
#include "ops/attention/attention.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rope/rope.h"
#include "runtime/attend_by_heads.h"
#include "runtime/pace.h"

namespace tachy {

void WanBlock::check_ranks(const WanBlockInput& in) const {
  if (!in.comm || in.comm->size() == 1) return;
  const char* alone = nullptr;
  for (const WanBranch* branch : branches_)
    if (!alone) alone = branch->needs_all_tokens();
  check(!alone, ErrorCode::unsupported, "transformer: {} needs all tokens on one rank", alone ? alone : "");
}

bool WanBlock::filled_by(const WanBlockInput& in, int64_t index) const {
  return in.fill_only && index + 1 == config_.num_layers &&
         std::ranges::none_of(branches_, [](const WanBranch* branch) { return branch->remembers(); });
}

float WanBlock::query_scale() const {
  return 1.0f / std::sqrt(static_cast<float>(config_.head_dim)) * 1.44269504088896340736f;
}

float WanBlock::score_scale(const WanConfig& config, const Stream& stream) {
  if (!stream.without.has(Optimisation::fused_rope)) return ops::kPowersOfTwo;
  return 1.0f / std::sqrt(static_cast<float>(config.head_dim));
}

void WanBlock::forward(const WanBlockInput& in, const WanModulation& next, int64_t index,
                       Stream& stream) const {
  check_ranks(in);
  const Tensor modulation = block_modulation(in, index);
  ProfileRange part(stream.hooks.profiler, "self-attention", ProfileKind::group);
  self_attention(in, modulation, index, stream);
  if (filled_by(in, index)) return;
  part.next("cross-attention", ProfileKind::group);
  cross_attention(in, modulation, index, stream);
  part.next("feed-forward", ProfileKind::group);
  feed_forward(in, modulation, next, index, stream);
}

// t.k is undefined if the ring has the block's keys already. With several ranks t has all of the block's tokens
// and some heads, of which the rank's ring remembers the keys.
void WanBlock::attend_to_ring(const WanBlockInput& in, const runtime::HeadTensors& t, int64_t index,
                              Stream& stream) const {
  const WanCausal& causal = *in.causal;
  const int64_t heads = t.q.dim(2), places = t.q.dim(1) / causal.frames;
  const auto rows = [&](const Tensor& x) {
    Tensor out = x;
    if (!x.defined()) return out;
    out = Tensor(x.data, x.dtype, {x.dim(1), heads * self_.head_dim}, x.device);
    out.strides[0] = x.stride(1);
    return out;
  };
  causal.ring.put(index, causal.first, rows(t.k), rows(t.v), stream);
  if (filled_by(in, index)) return;
  const ProfileRange range(stream.hooks.profiler, "attention", ProfileKind::attention);
  const auto all = [&](const Tensor& x) { return x.view({1, -1, heads, self_.head_dim}); };
  const auto attend_part = [&](const WanPart& p, const Tensor& k, const Tensor& v) {
    const auto part_of = [&](const Tensor& x) { return x.slice(1, p.first * places, p.end * places); };
    const auto from = [&](const Tensor& x) { return all(x.slice(0, p.from + p.sinks, p.until)); };
    ops::AttentionArgs args{.q = part_of(t.q),
                            .k = from(k),
                            .v = from(v),
                            .scale = score_scale(config_, stream),
                            .eight_bits = stream.precision.attention_int8,
                            .eight_bits_of_few = in.keys.few_in_eight_bits,
                            .out = part_of(t.out)};
    if (p.sinks == 0) return nn::attention_in_pieces(args, stream);
    args.more = {{.k = all(k.slice(0, 0, p.sinks)), .v = all(v.slice(0, 0, p.sinks))}};
    ops::attention(args, stream);
  };
  attend_parts(causal.parts, causal.frames, causal.ring, index, causal.end(), attend_part);
}

void WanBlock::attend(const WanBlockInput& in, const nn::Attention::Projected& made, const Tensor& out,
                      int64_t index, Stream& stream) const {
  ProfileRange part(stream.hooks.profiler);
  if (in.causal) {
    part.done();
    const auto by_heads = [&](const Tensor& t) { return t.defined() ? self_.by_heads(t, 1) : t; };
    return runtime::attend_by_heads(
        in.comm, in.spread, {by_heads(made.q), by_heads(made.k), by_heads(made.v), by_heads(out)}, stream,
        [&](const runtime::HeadTensors& t) { attend_to_ring(in, t, index, stream); });
  }
  for (const WanBranch* branch : branches_)
    if (branch->attend(in, made, index, out, stream)) return;
  const bool choosing = in.keys.keep > 0;
  part.next(choosing ? "choose blocks" : "attention", ProfileKind::attention);
  runtime::attend_by_heads(in.comm, in.spread,
                           {.q = self_.by_heads(made.q, in.batch),
                            .k = self_.by_heads(made.k, in.batch),
                            .v = self_.by_heads(made.v, in.batch),
                            .out = self_.by_heads(out, in.batch)},
                           stream, [&](const runtime::HeadTensors& t) {
                             const ArenaScope lists(*stream.arena);
                             const ops::BlockLists blocks = in.keys.for_heads(t.q, t.k, stream);
                             if (choosing) part.next("attention", ProfileKind::attention);
                             nn::attention_in_pieces({.q = t.q,
                                                      .k = t.k,
                                                      .v = t.v,
                                                      .scale = score_scale(config_, stream),
                                                      .blocks = blocks,
                                                      .eight_bits = stream.precision.attention_int8,
                                                      .eight_bits_of_few = in.keys.few_in_eight_bits,
                                                      .out = t.out,
                                                      .lse = t.lse},
                                                     stream);
                           });
}

void WanBlock::norm_and_turn(const WanBlockInput& in, const nn::Attention::Projected& made,
                             const Tensor& to_k, Stream& stream) const {
  if (stream.without.has(Optimisation::fused_rope)) {
    const auto apart = [&](const Tensor& x, const nn::Norm& norm, const Tensor& y) {
      ops::rmsnorm({.x = x, .weight = norm.weight, .eps = config_.eps, .y = y}, stream);
      const Tensor heads = self_.by_heads(y, in.batch);
      ops::rope({.x = heads, .cos = in.cos, .sin = in.sin, .y = heads}, stream);
    };
    apart(made.q, self_.norm_q, made.q);
    return apart(made.k, self_.norm_k, to_k);
  }
  const Tensor q = nn::Attention::by_batch(made.q, in.batch);
  ops::qk_norm_rope({.x = q,
                     .weight = self_.norm_q.weight,
                     .eps = config_.eps,
                     .scale = query_scale(),
                     .heads = static_cast<int>(config_.num_heads),
                     .cos = in.cos,
                     .sin = in.sin,
                     .y = q,
                     .x2 = nn::Attention::by_batch(made.k, in.batch),
                     .weight2 = self_.norm_k.weight,
                     .y2 = nn::Attention::by_batch(to_k, in.batch)},
                    stream);
}

void WanBlock::self_attention(const WanBlockInput& in, const Tensor& modulation, int64_t index,
                              Stream& stream) const {
  const ArenaScope scope(*stream.arena);
  ProfileRange part(stream.hooks.profiler, "q, k, v", ProfileKind::linear);
  nn::Attention::Projected made = self_.project(in.u, stream, in.codes);
  part.next("q, k norm + rope", ProfileKind::norm);
  // A block's keys are written straight into the ring if it has adjacent slots for them, and all heads.
  std::optional<Tensor> place;
  if (in.causal && (!in.comm || in.comm->size() == 1))
    place = in.causal->ring.place(index, in.causal->first, in.causal->frames);
  norm_and_turn(in, made, place ? *place : made.k, stream);
  if (place) made.k = Tensor();
  part.done();
  attend(in, made, in.u, index, stream);
  if (filled_by(in, index)) return;
  runtime::checkpoint(stream);
  for (const WanBranch* branch : branches_) branch->after_self_attention(in, made, stream);
  part.next("out", ProfileKind::linear);
  const Tensor y(made.q.data, in.u.dtype, in.u.shape(), in.u.device);  // q, k and v are no longer needed
  self_.out(in.u, y, stream);
  part.next("gated residual + norm", ProfileKind::norm);
  if (config_.cross_attn_norm)
    nn::add_norm({.x = in.x,
                  .u = y,
                  .gate = modulation.select(1, 2),
                  .row = in.row,
                  .kind = ops::NormKind::layer,
                  .weight = cross_norm_.weight,
                  .bias = cross_norm_.bias,
                  .eps = config_.eps,
                  .sum = in.x,
                  .y = in.normed(),
                  .y_scale = in.codes.scale},
                 stream);
  else
    ops::gated_residual({.x = in.x, .u = y, .gate = modulation.select(1, 2), .row = in.row, .y = in.x},
                        stream);
}

void WanBlock::feed_forward(const WanBlockInput& in, const Tensor& modulation, const WanModulation& next,
                            int64_t index, Stream& stream) const {
  const int64_t rows = in.batch * in.tokens;
  // The hidden activations may reuse the memory of q, k and v, and their codes may reuse that of u.
  const int64_t value = dtype_size(stream.precision.activation),
                code = in_eight_bits(stream.precision.products) ? 1 : 0;
  const int64_t free_rows = rows * (3 * value + code) * config_.dim() / ((value + code) * config_.ffn_dim);
  mlp_(in.u, in.u, stream, {.codes = in.codes, .free_rows = free_rows});
  WanPending sum{.y = in.u, .gate = modulation.select(1, 5)};
  for (const WanBranch* branch : branches_) branch->after_feed_forward(in, index, sum, stream);
  if (!next.scale.defined()) return sum.settle(in, stream);
  add_and_norm(in, sum, next, index + 1 == config_.num_layers, stream);
}

}  // namespace tachy
