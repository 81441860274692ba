// What a video made block by block remembers, and what of a block is made before its first step: positions, actions, sinks.
#include <algorithm>

#include "models/wan/dit.h"
#include "ops/rope/rope.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

constexpr double kTheta = 10000.0;

// Pixel frames [first, end) of which a block of latent frames must know what was pressed.
struct PixelFrames {
  int64_t first, end;
};

// `rows` [n, width] of a script, from pixel frame `begin` on; `to`: where a block's actions lie, undefined where the model
// has none of these.
void expect_actions(const char* name, const Tensor& rows, int64_t begin, int64_t width,
                    const PixelFrames& needed, const Tensor& to) {
  if (!to.defined())
    return require(!rows.defined(), "transformer: actions of a {} given, but the model has none", name);
  require(rows.defined(), "transformer: expected the actions of a {}, got none", name);
  expect_shape("transformer", name, rows, {-1, width});
  require(begin >= 0 && begin <= needed.first && rows.dim(0) >= needed.end - begin,
          "transformer: {}: expected the actions of pixel frames {} to {}, got {} from {} on", name,
          needed.first, needed.end - 1, rows.dim(0), begin);
}

// Those that a block sees.
void put_actions(const WanActionConfig& c, const Tensor& rows, int64_t begin, const WanCausal& block,
                 const Tensor& to, Stream& stream) {
  if (!to.defined()) return;
  const int64_t count = c.needed(block.frames), width = to.dim(1);
  make_on_host(stream, {to.slice(0, 0, count)}, [&](Stream& host, std::span<const Tensor> made) {
    if (host.measuring()) return;
    for (int64_t i = 0; i < count; ++i) {
      const float* from = rows.as<float>() + (c.frame_of(block.first, i) - begin) * width;
      std::copy(from, from + width, made[0].as<float>() + i * width);
    }
  });
}

}  // namespace

WanCausal WanDit::allocate_causal(const WanWindow& window, int64_t most, int64_t rows, int64_t columns,
                                  nn::ParamStore& store) const {
  const WanConfig& c = config_;
  const runtime::RingSlots slots{window.frames, window.sinks};
  slots.expect_block(most);
  check(c.patch_t == 1, ErrorCode::unsupported,
        "transformer: patches of {} frames cannot be made block by block", c.patch_t);
  const int64_t places = rows * columns, half = c.head_dim / 2;
  const bool moving = window.sinks_follow && window.sinks > 0;
  const auto values = [&](std::initializer_list<int64_t> dims) {
    return store.allocate(store.stream().precision.activation, dims);
  };
  const auto table = [&](std::initializer_list<int64_t> dims) { return store.allocate(DType::f32, dims); };
  WanCausal out{.window = window, .most = most};
  out.ring = runtime::KvRing::make(slots, c.num_layers, places, c.dim(), moving, values);
  if (moving) {
    out.sink_cos = table({window.sinks * places, half});
    out.sink_sin = table({window.sinks * places, half});
  }
  if (!c.actions.present()) return out;
  const WanActionConfig& a = c.actions;
  const runtime::RingSlots without_sinks{window.frames, 0};
  const auto modules = static_cast<int64_t>(a.blocks.size());
  out.keyboard = runtime::KvRing::make(without_sinks, modules, 1, a.keyboard_hidden, false, values);
  out.actions.keyboard = table({a.needed(most), a.keyboard_dim});
  const int64_t key_pairs = a.keyboard_hidden / a.heads / 2, mouse_pairs = a.mouse_hidden / a.heads / 2;
  out.actions.keyboard_cos = table({most, a.heads, key_pairs});
  out.actions.keyboard_sin = table({most, a.heads, key_pairs});
  if (a.mouse_dim == 0) return out;
  out.mouse = runtime::KvRing::make(without_sinks, modules, places, a.mouse_hidden, false, values);
  out.actions.mouse = table({a.needed(most), a.mouse_dim});
  out.actions.mouse_cos = table({most, a.heads, mouse_pairs});
  out.actions.mouse_sin = table({most, a.heads, mouse_pairs});
  return out;
}

void WanDit::begin_block(WanCausal& causal, const WanGrid& grid, const WanScript& script,
                         Stream& stream) const {
  const WanConfig& c = config_;
  require(grid.frames >= 1 && grid.frames <= causal.most,
          "transformer: expected a block of 1 to {} frames, got {}", causal.most, grid.frames);
  check(grid.places.empty() && grid.rows * grid.columns == causal.ring.k.dim(2), ErrorCode::internal,
        "transformer: a block of {}x{} tokens a frame, but {} are remembered", grid.rows, grid.columns,
        causal.ring.k.dim(2));
  const int64_t first = causal.end(), end = first + grid.frames;
  const WanActionConfig& a = c.actions;
  const WanActionInput& given = causal.actions;
  const PixelFrames needed{a.frame_of(first, 0), 1 + a.frames_each * (end - 1)};
  expect_actions("keyboard", script.keyboard, script.first_frame, a.keyboard_dim, needed, given.keyboard);
  expect_actions("mouse", script.mouse, script.first_frame, a.mouse_dim, needed, given.mouse);
  causal.first = first, causal.frames = grid.frames;
  make_on_host(stream, {grid.cos, grid.sin}, [&](Stream& host, std::span<const Tensor> to) {
    if (!host.measuring())
      ops::rope_table_3d(grid.frames, grid.rows, grid.columns, c.head_dim, kTheta, to[0], to[1],
                         {.first = first});
  });
  put_actions(a, script.keyboard, script.first_frame, causal, given.keyboard, stream);
  put_actions(a, script.mouse, script.first_frame, causal, given.mouse, stream);
  const auto turn = [&](const Tensor& cos, const Tensor& sin) {
    if (!cos.defined()) return;
    make_on_host(stream, {cos, sin}, [&](Stream& host, std::span<const Tensor> to) {
      if (!host.measuring()) fill_action_rope(a, first, to[0], to[1]);
    });
  };
  turn(given.keyboard_cos, given.keyboard_sin);
  turn(given.mouse_cos, given.mouse_sin);
  const int64_t ahead = end - causal.window.frames;
  if (!causal.sink_cos.defined() || ahead <= 0) return;
  make_on_host(stream, {causal.sink_cos, causal.sink_sin}, [&](Stream& host, std::span<const Tensor> to) {
    if (host.measuring()) return;
    ops::rope_table_3d(1, 1, 1, c.head_dim, kTheta, to[0].slice(0, 0, 1), to[1].slice(0, 0, 1),
                       {.first = ahead});
    for (const Tensor& t : to)
      for (int64_t row = 1; row < t.dim(0); ++row)
        std::copy(t.as<float>(), t.as<float>() + t.dim(1), t.as<float>() + row * t.dim(1));
  });
  causal.ring.turn_sinks(causal.sink_cos, causal.sink_sin, c.num_heads, stream);
}

void WanDit::expect_causal(const WanInput& in) const {
  require(in.causal || !config_.actions.present(),
          "transformer: the model follows actions: it can only make a video block by block");
  require(in.causal || !in.fill_only, "transformer: nothing to fill without a causal pass");
  if (!in.causal) return;
  const WanCausal& causal = *in.causal;
  require(in.latents.dim(0) == 1, "transformer: expected one video made block by block, got {}",
          in.latents.dim(0));
  require(in.keys.all() && !config_.audio_branch(),
          "transformer: neither block-sparse attention nor speech goes with a video made block by block");
  check(causal.frames == in.grid->frames && !in.row.defined(), ErrorCode::internal,
        "transformer: a pass of {} frames at {}, but the block that began has {}", in.grid->frames,
        in.row.defined() ? "several timesteps" : "one timestep", causal.frames);
}

}  // namespace tachy
