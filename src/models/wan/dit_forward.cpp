// One pass of the transformer, from patches through blocks to the head's velocities. Each of several ranks
// has its own share of the tokens.
#include <algorithm>

#include "base/env.h"
#include "models/wan/dit.h"
#include "ops/add_rows/add_rows.h"
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

void WanDit::embed_patches(const WanInput& in, runtime::Share own, const Tensor& x, Stream& stream) const {
  const WanConfig& c = config_;
  const int64_t batch = in.latents.dim(0), tokens = in.grid->tokens();
  const ArenaScope scope(*stream.arena);
  const Tensor patches = stream.arena->tensor(
      stream.precision.activation, {batch, tokens, c.in_channels * c.patch_t * c.patch_h * c.patch_w});
  ops::patchify({in.latents, c.patch_t, c.patch_h, c.patch_w, patches, in.grid->place}, stream);
  if (own.count() == tokens) return patch_embedding_(patches.view({batch * tokens, -1}), x, stream);
  for (int64_t b = 0; b < batch; ++b)
    patch_embedding_(patches.select(0, b).slice(0, own.first, own.end),
                     x.slice(0, b * own.count(), (b + 1) * own.count()), stream);
}

void WanDit::predict(const WanInput& in, runtime::Share own, const Tensor& u, const Tensor& velocity,
                     Stream& stream) const {
  const WanConfig& c = config_;
  const int64_t batch = in.latents.dim(0), tokens = in.grid->tokens(),
                width = c.out_channels * c.patch_t * c.patch_h * c.patch_w;
  const Tensor out = stream.arena->f32({batch, own.count(), width});
  head_(u, out.view({batch * own.count(), -1}), stream);
  Tensor whole = out;
  if (own.count() < tokens) {
    const bool first = in.comm->rank() == 0;
    if (first) whole = stream.arena->f32({batch, tokens, width});
    for (int64_t b = 0; b < batch; ++b) {
      std::vector<Tensor> to;
      for (int rank = 0; first && rank < in.comm->size(); ++rank) {
        const runtime::Share share = runtime::share_of(tokens, rank, in.comm->size());
        to.push_back(whole.select(0, b).slice(0, share.first, share.end));
      }
      in.comm->gather(out.select(0, b), to, stream);
    }
    if (!first) return;
  }
  ops::unpatchify({whole, c.patch_t, c.patch_h, c.patch_w, velocity, in.grid->place}, stream);
}

namespace {

// Selects this rank's tokens from the timestep rows [batch·tokens] of all tokens.
Tensor rows_of(const Tensor& row, int64_t batch, int64_t tokens, runtime::Share own, Stream& stream) {
  if (!row.defined() || own.count() == tokens) return row;
  const Tensor out = stream.arena->tensor(DType::i32, {batch * own.count()});
  for (int64_t b = 0; b < batch; ++b)
    copy_bytes(row.slice(0, b * tokens + own.first, b * tokens + own.end),
               out.slice(0, b * own.count(), (b + 1) * own.count()), stream);
  return out;
}

}  // namespace

void WanDit::forward(const WanInput& in, const Tensor& velocity, Stream& stream) const {
  expect_own(stream);
  const WanConfig& c = config_;
  const int64_t batch = in.latents.dim(0), all = in.grid->tokens(), dim = c.dim();
  const runtime::Share own =
      in.comm ? runtime::share_of(all, in.comm->rank(), in.comm->size()) : runtime::Share{0, all};
  const int64_t tokens = own.count(), rows = batch * tokens;
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
  WanBlockInput block{.batch = batch,
                      .tokens = tokens,
                      .x = arena.tensor(stream.precision.residual, {rows, dim}),
                      .modulation = arena.f32({c.num_layers, in.times.projection.dim(0), 6 * dim}),
                      .row = rows_of(in.row, batch, all, own, stream),
                      .cos = in.grid->cos.slice(0, own.first, own.end),
                      .sin = in.grid->sin.slice(0, own.first, own.end),
                      .contexts = in.contexts,
                      .comm = in.comm,
                      .all_tokens = all,
                      .keys = in.keys,
                      .causal = in.causal,
                      .fill_only = in.fill_only,
                      .more = in.given};
  ProfileRange part(stream.hooks.profiler, "patch embedding", ProfileKind::linear);
  ops::add_rows({.table = block_tables_, .rows = in.times.projection, .y = block.modulation}, stream);
  embed_patches(in, own, block.x, stream);
  for (const auto& branch : branches_) branch->begin(in, block, stream);
  const Tensor modulation = arena.f32({2, in.times.embedding.dim(0), dim});
  ops::add_rows({.table = head_table_, .rows = in.times.embedding, .y = modulation}, stream);
  const WanModulation head{.scale = modulation.select(0, 1), .shift = modulation.select(0, 0)};
  part.next("norm + modulate", ProfileKind::norm);
  block.u = arena.tensor(stream.precision.activation, {rows, dim});
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
    const WanModulation next = i + 1 < c.num_layers ? WanBlock::first_norm(block, i + 1) : head;
    blocks_[static_cast<size_t>(i)].forward(block, next, i, stream);
  });
  if (in.fill_only) return;
  part.next("head", ProfileKind::linear);
  predict(in, own, block.u, velocity, stream);
}

}  // namespace tachy
