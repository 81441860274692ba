// One pass of the transformer, from patches through blocks to the head's velocities. Each of several ranks
// has its own share of the tokens.
#include <algorithm>

#include "base/env.h"
#include "models/wan/dit.h"
#include "ops/add_rows/add_rows.h"
#include "ops/elementwise/elementwise.h"
#include "ops/layernorm_modulate/layernorm_modulate.h"
#include "ops/patchify/patchify.h"
#include "ops/quantize/quantize.h"
#include "runtime/pace.h"
#include "tensor/transfer.h"

namespace tachy {

// Makes room for the codes that the blocks' norms write, and writes those of the first norm's u. If norms
// cannot write codes, each product rounds the norm's result itself, with the same bits.
nn::RowCodes WanDit::codes_for_norms(const Tensor& u, Stream& stream) const {
  if (env_string("TACHY_NORM_CODES", "1") == "0" || stream.without.has(Optimisation::norm_codes) ||
      stream.without.has(Optimisation::fused_norms))
    return {};
  if (!std::ranges::all_of(blocks_, [&](const WanBlock& block) { return block.takes_codes(stream); }))
    return {};
  const nn::RowCodes codes{stream.arena->tensor(DType::f8_e4m3, u.shape()), stream.arena->f32({u.dim(0)})};
  ops::quantize({.x = u, .block = {1, 0}, .scale = codes.scale.view({u.dim(0), 1}), .q = codes.values},
                stream);
  return codes;
}

void WanDit::expect_taken(const WanExtras& given) const {
  for (const WanExtras::Entry& entry : given.entries())
    require(!entry.defined() ||
                std::ranges::any_of(branches_, [&](const auto& branch) { return branch->takes(entry.type); }),
            "transformer: {} given, but the model has no branch for it", entry.name);
}

void WanDit::embed_patches(const WanInput& in, int64_t own, const Tensor& x, Stream& stream) const {
  const WanConfig& c = config_;
  const int64_t batch = in.latents.dim(0), tokens = in.grid->tokens();
  const ArenaScope scope(*stream.arena);
  const Tensor patches = stream.arena->tensor(
      stream.precision.activation, {batch, tokens, c.in_channels * c.patch_t * c.patch_h * c.patch_w});
  ops::patchify({in.latents, c.patch_t, c.patch_h, c.patch_w, patches, in.grid->place}, stream);
  const Tensor mine = runtime::own_tokens(in.comm, in.spread(), patches, stream);
  patch_embedding_(mine.view({batch * own, -1}), x, stream);
}

void WanDit::predict(const WanInput& in, int64_t own, const Tensor& u, const Tensor& velocity,
                     Stream& stream) const {
  const WanConfig& c = config_;
  const int64_t batch = in.latents.dim(0), tokens = in.grid->tokens(),
                width = c.out_channels * c.patch_t * c.patch_h * c.patch_w;
  const Tensor out = stream.arena->f32({batch, own, width});
  head_(u, out.view({batch * own, -1}), stream);
  Tensor whole = out;
  if (own < tokens) {
    in.comm->line_up(stream);
    const ProfileRange range(stream.hooks.profiler, "to the first rank", ProfileKind::other);
    whole = runtime::tokens_on_first(*in.comm, in.spread(), out, stream);
  }
  if (!whole.defined()) return;
  ops::unpatchify({whole, c.patch_t, c.patch_h, c.patch_w, velocity, in.grid->place}, stream);
}

namespace {

// Selects this rank's tokens from the timestep rows [batch·tokens] of all tokens.
Tensor rows_of(const WanInput& in, int64_t own, Stream& stream) {
  const int64_t batch = in.latents.dim(0);
  if (!in.row.defined() || own == in.grid->tokens()) return in.row;
  const Tensor out = stream.arena->tensor(DType::i32, {batch * own});
  const runtime::Spread spread = in.spread();
  const runtime::Share places = spread.places_of(in.comm->rank(), in.comm->size());
  for (int64_t f = 0; f < batch * spread.frames; ++f)
    copy_bytes(in.row.slice(0, f * spread.places() + places.first, f * spread.places() + places.end),
               out.slice(0, f * places.count(), (f + 1) * places.count()), stream);
  return out;
}

}  // namespace

void WanDit::forward(const WanInput& in, const Tensor& velocity, Stream& stream) const {
  expect_own(stream);
  const WanConfig& c = config_;
  const int64_t batch = in.latents.dim(0), all = in.grid->tokens(), dim = c.dim();
  const int64_t tokens = in.comm ? in.spread().tokens_of(in.comm->rank(), in.comm->size()) : all,
                rows = batch * tokens;
  check(tokens > 0, ErrorCode::internal, "transformer: {} tokens for {} ranks", all,
        in.comm ? in.comm->size() : 1);
  expect_shape("transformer", "hidden_states", in.latents,
               {batch, c.in_channels, in.grid->frames * c.patch_t, in.grid->rows * c.patch_h,
                in.grid->columns * c.patch_w});
  expect_taken(in.given);
  for (const auto& branch : branches_) branch->expect(in);
  expect_causal(in);
  check(static_cast<int64_t>(in.contexts.size()) == batch, ErrorCode::internal,
        "transformer: {} contexts for a batch of {}", in.contexts.size(), batch);
  Arena& arena = *stream.arena;
  const ArenaScope scope(arena);
  const auto turns = [&](const Tensor& table) {
    return runtime::own_tokens(in.comm, in.spread(), table.view({1, all, -1}), stream).select(0, 0);
  };
  WanBlockInput block{.batch = batch,
                      .tokens = tokens,
                      .x = arena.tensor(stream.precision.residual, {rows, dim}),
                      .modulation = arena.f32({c.num_layers, in.times.projection.dim(0), 6 * dim}),
                      .row = rows_of(in, tokens, stream),
                      .cos = turns(in.grid->cos),
                      .sin = turns(in.grid->sin),
                      .contexts = in.contexts,
                      .comm = in.comm,
                      .spread = in.spread(),
                      .keys = in.keys,
                      .causal = in.causal,
                      .fill_only = in.fill_only,
                      .more = in.given};
  ProfileRange part(stream.hooks.profiler, "patch embedding", ProfileKind::linear);
  ops::add_rows({.table = block_tables_, .rows = in.times.projection, .y = block.modulation}, stream);
  embed_patches(in, tokens, block.x, stream);
  for (const auto& branch : branches_) branch->begin(in, block, stream);
  const Tensor modulation = arena.f32({2, in.times.embedding.dim(0), dim});
  ops::add_rows({.table = head_table_, .rows = in.times.embedding, .y = modulation}, stream);
  const WanModulation head{.scale = modulation.select(0, 1), .shift = modulation.select(0, 0)};
  part.done();
  block.u = arena.tensor(stream.precision.activation, {rows, dim});
  if (in.added.defined())
    run_or_reuse(in, block, head, stream);
  else
    run_blocks(in, block, head, stream);
  if (in.fill_only) return;
  part.next("head", ProfileKind::linear);
  predict(in, tokens, block.u, velocity, stream);
}

void WanDit::run_blocks(const WanInput& in, WanBlockInput& block, const WanModulation& head,
                        Stream& stream) const {
  const WanConfig& c = config_;
  ProfileRange part(stream.hooks.profiler, "norm + modulate", ProfileKind::norm);
  const WanModulation first = WanBlock::first_norm(block, 0);
  ops::layernorm_modulate({.x = block.x,
                           .scale = first.scale,
                           .shift = first.shift,
                           .row = block.row,
                           .eps = c.eps,
                           .y = block.u},
                          stream);
  block.codes = codes_for_norms(block.u, stream);
  each_block([&](int64_t i) {
    runtime::checkpoint(stream);
    part.next("block", ProfileKind::group, i);
    WanModulation next = i + 1 < c.num_layers ? WanBlock::first_norm(block, i + 1) : head;
    if (i + 1 == c.num_layers && in.added.defined()) next = {};  // x is wanted, too
    blocks_[static_cast<size_t>(i)].forward(block, next, i, stream);
  });
}

// x at the end less x at the beginning is kept in float32, whatever the residual stream's dtype.
void WanDit::run_or_reuse(const WanInput& in, WanBlockInput& block, const WanModulation& head,
                          Stream& stream) const {
  const int64_t dim = config_.dim();
  const runtime::Spread spread = in.spread();
  const int64_t first =
      in.comm ? spread.frames * spread.places_of(in.comm->rank(), in.comm->size()).first : 0;
  const auto mine = [&](const Tensor& x, int64_t b) {
    return x.view({block.batch, block.tokens, dim}).select(0, b);
  };
  const auto kept = [&](int64_t b) { return in.added.select(0, b).slice(0, first, first + block.tokens); };
  const ArenaScope scope(*stream.arena);
  const bool wide = block.x.dtype == DType::f32;
  const Tensor x = wide ? block.x : stream.arena->f32({block.batch * block.tokens, dim});
  const auto widen = [&] {
    if (!wide) ops::widen(block.x, x, stream);
  };
  const auto sum = [&](const Tensor& out, const Tensor& a, const Tensor& b, float of_b) {
    ops::LincombArgs args{.count = 2, .out = out};
    args.terms[0] = {a, 1}, args.terms[1] = {b, of_b};
    ops::lincomb(args, stream);
  };
  widen();
  if (in.reuses) {
    for (int64_t b = 0; b < block.batch; ++b) sum(mine(x, b), mine(x, b), kept(b), 1);
    if (!wide) ops::copy({.x = x, .scale = {}, .shift = {}, .y = block.x}, stream);
  } else {
    for (int64_t b = 0; b < block.batch; ++b) copy_bytes(mine(x, b), kept(b), stream);
    run_blocks(in, block, head, stream);
    widen();
    for (int64_t b = 0; b < block.batch; ++b) sum(kept(b), mine(x, b), kept(b), -1);
  }
  ops::layernorm_modulate({.x = block.x,
                           .scale = head.scale,
                           .shift = head.shift,
                           .row = block.row,
                           .eps = config_.eps,
                           .y = block.u},
                          stream);
}

}  // namespace tachy
