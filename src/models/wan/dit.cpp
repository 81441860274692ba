#include "models/wan/dit.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "models/wan/timestep.h"
#include "nn/adapter_set.h"
#include "ops/activation/activation.h"
#include "ops/rope/rope.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// The layers of the blocks take nearly all of a step's time, except for those that make keys and values of
// the text once per run. Embedders and the head keep the activations' dtype, since every block inherits their
// rounding errors.
bool multiplies_in_eight_bits(std::string_view layer, const WanBranches& branches) {
  const auto is = [&](std::string_view end) { return layer.ends_with(end); };
  if (layer.find("blocks.") == layer.npos) return false;
  return layer.find(".attn1.") != layer.npos || is(".attn2.to_q") || is(".attn2.to_out.0") ||
         layer.find(".ffn.") != layer.npos ||
         std::ranges::any_of(branches, [&](const auto& b) { return b->multiplies_in_eight_bits(layer); });
}

// Keys and values of the text, and of other tokens to which branches attend, are made once per run or once
// per window.
bool makes_keys_of_context(std::string_view layer, const WanBranches& branches) {
  return layer.ends_with(".attn2.to_k") || layer.ends_with(".attn2.to_v") ||
         std::ranges::any_of(branches, [&](const auto& b) { return b->makes_keys(layer); });
}

uint64_t next_id() {
  static std::atomic<uint64_t> ids{0};
  return ++ids;
}

}  // namespace

WanDit::WanDit(const Scope& scope, const WanConfig& c, nn::ParamStore& store)
    : config_(c), precision_(store.stream().precision), id_(next_id()), mapping_(scope.keep()) {
  const int64_t dim = c.dim();
  patch_embedding_ = nn::Linear::from_kernel(scope.sub("patch_embedding"), store,
                                             {dim, c.in_channels, c.patch_t, c.patch_h, c.patch_w});
  const Scope condition = scope.sub("condition_embedder");
  if (c.text_dim > 0) {
    text1_ = nn::Linear(condition.sub("text_embedder.linear_1"), store, c.text_dim, dim);
    text2_ = nn::Linear(condition.sub("text_embedder.linear_2"), store, dim, dim);
  }
  load_times(condition, store.beside());
  if (c.image_dim > 0) image_ = WanImageEmbedding(condition.sub("image_embedder"), c, store);
  store.set_eight_bits([&](std::string_view layer) { return multiplies_in_eight_bits(layer, branches_); });
  store.set_visiting([&](std::string_view layer) { return makes_keys_of_context(layer, branches_); });
  branches_ = make_branches(scope, c, store);
  block_tables_ = store.allocate(DType::f32, {c.num_layers, 6 * dim});
  const Scope blocks = scope.sub("blocks");
  streamed_ = store.stream_blocks(c.num_layers, [&](nn::ParamStore& probe, int64_t i) {
    const WanBlock one(blocks.sub(i), c, i, block_tables_.select(0, i), probe, branches_);
  });
  for (int64_t i = 0; i < c.num_layers; ++i) {
    nn::ParamStore::BlockScope block(store, i);
    blocks_.emplace_back(blocks.sub(i), c, i, block_tables_.select(0, i), store, branches_);
    block.done();
  }
  store.set_eight_bits({});
  store.set_visiting({});
  head_ = nn::Linear(scope.sub("proj_out"), store, dim, c.out_channels * c.patch_t * c.patch_h * c.patch_w);
  head_table_ = store.widened(scope.tensor("scale_shift_table", {1, 2, dim})).view({2, dim});
  linears_ = store.take_linears();
}

void WanDit::each_block(const std::function<void(int64_t index)>& visit) const {
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    if (streamed_) streamed_->enter(i);
    visit(i);
    if (streamed_) streamed_->leave(i);
  }
  if (streamed_) streamed_->finish();
}

void WanDit::expect_own(const Stream& stream) const {
  expect_same_weights("transformer", precision_, stream.precision);
  expect_same_products("transformer", precision_, stream.precision);
  nn::expect_own_adapters("transformer", stream, *linears_);
}

// What depends on timesteps is computed once for all steps, in float32. With a GPU this still happens on the
// host, where its weights lie in the file (at 14B's size, float32 weights would waste 1.3 GB of the GPU's
// memory).
void WanDit::load_times(const Scope& condition, nn::ParamStore& store) {
  const int64_t dim = config_.dim();
  time1_ = nn::Linear(condition.sub("time_embedder.linear_1"), store, config_.freq_dim, dim);
  time2_ = nn::Linear(condition.sub("time_embedder.linear_2"), store, dim, dim);
  time_projection_ = nn::Linear(condition.sub("time_proj"), store, dim, 6 * dim);
}

WanGrid WanDit::make_grid(int64_t latent_frames, int64_t latent_height, int64_t latent_width,
                          nn::ParamStore& store, std::vector<int32_t> places, int64_t riflex) const {
  const WanConfig& c = config_;
  require(latent_frames % c.patch_t == 0 && latent_height % c.patch_h == 0 && latent_width % c.patch_w == 0,
          "transformer: latents of {}x{}x{} do not divide into patches of {}x{}x{}", latent_frames,
          latent_height, latent_width, c.patch_t, c.patch_h, c.patch_w);
  WanGrid grid{latent_frames / c.patch_t, latent_height / c.patch_h, latent_width / c.patch_w};
  grid.places = std::move(places);
  require(std::max({grid.frames, grid.rows, grid.columns}) <= c.rope_max_seq_len,
          "transformer: a grid of {}x{}x{} tokens exceeds the model's {} positions an axis", grid.frames,
          grid.rows, grid.columns, c.rope_max_seq_len);
  const int64_t tokens = grid.tokens(), half = c.head_dim / 2;
  grid.cos = store.allocate(DType::f32, {tokens, half});
  grid.sin = store.allocate(DType::f32, {tokens, half});
  check(grid.places.empty() || static_cast<int64_t>(grid.places.size()) == tokens, ErrorCode::internal,
        "transformer: {} places for {} tokens", grid.places.size(), tokens);
  if (!grid.places.empty()) grid.place = store.uploaded(grid.places.data(), DType::i32, {tokens});
  if (store.plan_only()) return grid;
  const std::string_view places_text(reinterpret_cast<const char*>(grid.places.data()),
                                     grid.places.size() * sizeof(int32_t));
  if (store.holds({grid.cos, grid.sin}, fmt::format("rope {}x{}x{} {} {} {}", grid.frames, grid.rows,
                                                    grid.columns, c.head_dim, riflex, places_text)))
    return grid;
  make_on_host(store.stream(), {grid.cos, grid.sin}, [&](Stream& host, std::span<const Tensor> to) {
    if (!host.measuring())
      ops::rope_table_3d(grid.frames, grid.rows, grid.columns, c.head_dim, 10000.0, to[0], to[1],
                         {.riflex = riflex}, grid.places);
  });
  return grid;
}

WanTimes WanDit::make_times(std::span<const double> timesteps, nn::ParamStore& store,
                            std::optional<Sinusoid> kind) const {
  nn::expect_own_adapters("transformer", store.stream(), *linears_);
  const auto count = static_cast<int64_t>(timesteps.size());
  const int64_t dim = config_.dim();
  WanTimes times{store.allocate(DType::f32, {count, dim}), store.allocate(DType::f32, {count, 6 * dim})};
  // Adapters may change the layers that make them.
  if (!store.plan_only() && !store.stream().adapters &&
      store.holds({times.embedding, times.projection},
                  fmt::format("times {} {} {}", id_, static_cast<int>(kind.value_or(config_.sinusoid)),
                              fmt::join(timesteps, " "))))
    return times;
  make_on_host(store.stream(), {times.embedding, times.projection},
               [&](Stream& host, std::span<const Tensor> to) {
                 const ArenaScope scope(*host.arena);
                 const Tensor sinusoid = host.arena->f32({count, config_.freq_dim}),
                              hidden = host.arena->f32({count, dim});
                 if (!host.measuring()) fill_sinusoid(timesteps, kind.value_or(config_.sinusoid), sinusoid);
                 time1_(sinusoid, hidden, host, {.act = ops::Activation::silu});
                 host.throw_if_cancelled();
                 time2_(hidden, to[0], host);
                 ops::activation({.x = to[0], .kind = ops::Activation::silu, .y = hidden}, host);
                 host.throw_if_cancelled();
                 time_projection_(hidden, to[1], host);
               });
  return times;
}

}  // namespace tachy
