// Allocates the memory of a video that is made block by block, and prepares a block before its first step:
// positions, sinks, and the inputs of branches.
#include <algorithm>

#include "models/wan/dit.h"
#include "ops/elementwise/elementwise.h"
#include "ops/rope/rope.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

constexpr double kTheta = 10000.0;

// Returns the slots that the frames of the current block see. A mask's parts cover a whole clip that begins
// here.
std::vector<WanPart> parts_of(const WanCausal& causal) {
  const WanMask& m = causal.mask;
  if (m.parts.empty()) return {{0, causal.frames, 0, causal.ring.slots.in_use(causal.end())}};
  std::vector<WanPart> out;
  int64_t at = 0;
  for (const int64_t n : m.parts) {
    require(n >= 1 && m.sinks >= 0 && (m.frames == 0 || n + m.sinks <= m.frames),
            "transformer: a mask with parts of {} latent frames that see {}, {} of them sinks", n, m.frames,
            m.sinks);
    const int64_t end = at + n, from = m.frames > 0 ? std::max<int64_t>(end - m.frames, 0) : 0;
    out.push_back({at, end, from, end, from > 0 ? m.sinks : 0});
    at = end;
  }
  require(causal.first == 0 && at == causal.frames && at <= causal.window.frames,
          "transformer: a mask of {} latent frames, expected one of a whole clip of {}, in rings of {}", at,
          causal.end(), causal.window.frames);
  return out;
}

// Returns how many channels of a head turn by the frame (ops/rope/rope.h).
int64_t time_channels(int64_t head_dim) { return head_dim - 2 * (2 * (head_dim / 6)); }

// Repeats a row for the `each` tokens of a frame: rows [1, n] or [frames, n] are written to the first columns
// of table [frames·each, ≥ n].
void spread(const Tensor& rows, const Tensor& table, int64_t frames, Stream& stream) {
  const int64_t each = table.dim(0) / frames, n = rows.dim(1);
  Tensor from(rows.data, DType::f32, {frames, each, n}, rows.device), to = from;
  from.strides[0] = rows.stride(0), from.strides[1] = 0;
  to.data = table.data, to.device = table.device;
  to.strides[0] = each * table.stride(0), to.strides[1] = table.stride(0);
  ops::copy({.x = from, .y = to}, stream);
}

}  // namespace

WanCausal WanDit::allocate_causal(const WanWindow& window, int64_t most, int64_t rows, int64_t columns,
                                  nn::ParamStore& store, int64_t heads) const {
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
  WanCausal out{.window = window, .most = most, .heads = heads > 0 ? heads : c.num_heads};
  WanConstants constants;
  const int64_t time_pairs = time_channels(c.head_dim) / 2;
  constants.add(out.time_cos, {most, time_pairs});
  constants.add(out.time_sin, {most, time_pairs});
  out.ring = runtime::KvRing::make(slots, c.num_layers, places, out.heads * c.head_dim, moving, values);
  if (moving) {
    out.sink_cos = store.allocate(DType::f32, {window.sinks * places, half});
    out.sink_sin = store.allocate(DType::f32, {window.sinks * places, half});
    constants.add(out.sink_row_cos, {1, half});
    constants.add(out.sink_row_sin, {1, half});
  }
  for (const auto& branch : branches_) branch->allocate(out, places, constants, store);
  out.constants = constants.allocate(store);
  return out;
}

void WanDit::fill_constants(const WanCausal& causal, const WanExtras& given, std::span<float> host) const {
  const WanConfig& c = config_;
  const auto on_host = [&](const Tensor& t) { return WanConstants::on_host(t, causal.constants, host); };
  const int64_t turning = time_channels(c.head_dim);
  ops::rope_table_1d(causal.frames, turning, kTheta, on_host(causal.time_cos).slice(0, 0, causal.frames),
                     on_host(causal.time_sin).slice(0, 0, causal.frames), {.first = causal.first});
  if (causal.sink_row_cos.defined())
    ops::rope_table_3d(1, 1, 1, c.head_dim, kTheta, on_host(causal.sink_row_cos),
                       on_host(causal.sink_row_sin),
                       {.first = std::max<int64_t>(causal.end() - causal.window.frames, 0)});
  for (const auto& branch : branches_) branch->fill(causal, given, on_host);
}

void WanDit::begin_block(WanCausal& causal, const WanGrid& grid, const WanExtras& given,
                         Stream& stream) const {
  require(grid.frames >= 1 && grid.frames <= causal.most,
          "transformer: expected a block of 1 to {} frames, got {}", causal.most, grid.frames);
  check(grid.places.empty() && grid.rows * grid.columns == causal.ring.k.dim(2), ErrorCode::internal,
        "transformer: a block of {}x{} tokens a frame, but {} are remembered", grid.rows, grid.columns,
        causal.ring.k.dim(2));
  const int64_t first = causal.end(), end = first + grid.frames;
  expect_taken(given);
  for (const auto& branch : branches_) branch->expect_block(causal, {first, end}, given);
  causal.first = first, causal.frames = grid.frames, causal.known = false;
  causal.parts = parts_of(causal);
  if (!stream.measuring()) {
    std::vector<float> host(static_cast<size_t>(causal.constants.numel()));
    fill_constants(causal, given, host);
    upload(host.data(), causal.constants, stream);
  }
  // The angles of rows and columns were filled in when the grid was made.
  spread(causal.time_cos.slice(0, 0, grid.frames), grid.cos, grid.frames, stream);
  spread(causal.time_sin.slice(0, 0, grid.frames), grid.sin, grid.frames, stream);
  if (!causal.sink_cos.defined() || end <= causal.window.frames) return;
  spread(causal.sink_row_cos, causal.sink_cos, 1, stream);
  spread(causal.sink_row_sin, causal.sink_sin, 1, stream);
  causal.ring.turn_sinks(causal.sink_cos, causal.sink_sin, causal.heads, stream);
}

void WanDit::expect_causal(const WanInput& in) const {
  require(in.causal || !in.fill_only, "transformer: nothing to fill without a causal pass");
  if (!in.causal) return;
  const WanCausal& causal = *in.causal;
  require(in.latents.dim(0) == 1, "transformer: expected one video made block by block, got {}",
          in.latents.dim(0));
  require(in.keys.all(), "transformer: block-sparse attention does not go with a video made block by block");
  check(causal.frames == in.grid->frames && !in.row.defined(), ErrorCode::internal,
        "transformer: a pass of {} frames at {}, but the block that began has {}", in.grid->frames,
        in.row.defined() ? "several timesteps" : "one timestep", causal.frames);
}

}  // namespace tachy
