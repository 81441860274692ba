// Attention in bf16 by flash_stays_sm80.cuh, for GPUs since sm_80 whose blocks may have 154 KiB of shared memory.
#include <algorithm>
#include <limits>

#include "ops/attention/flash_again.cuh"
#include "ops/attention/flash_params.cuh"
#include "ops/attention/flash_stays_sm80.cuh"

namespace tachy::ops {
namespace {

using Tile = flash::StaysTile<128>;

// With fewer keys flash_sm80 was as fast. With fewer tiles than two for each multiprocessor some of these have less to
// do than others, for which kernels were compared whose blocks leave.
constexpr int64_t kLeastKeys = 256, kLeastTiles = 2;

int64_t tiles_of(const AttentionArgs& a) { return (a.q.dims[1] + Tile::kRows - 1) / Tile::kRows; }
int64_t heads_of(const AttentionArgs& a) { return a.q.dims[0] * a.q.dims[2]; }

// How many elements lie between the first and the last one, if the last two dims are a row's.
int64_t extent(const Tensor& t) {
  int64_t last = t.dims[3];
  for (int i = 0; i < 3; ++i) last += (t.dims[i] - 1) * t.strides[i];
  return last;
}

bool alike(const Tensor& k, const Tensor& v) {
  for (int i = 0; i < 3; ++i)
    if (k.dims[i] > 1 && k.strides[i] != v.strides[i]) return false;
  return true;
}

}  // namespace

std::optional<Refusal> attention_why_not_stays_sm80(const AttentionArgs& a, const Stream& stream) {
  if (auto why = attention_why_not_long_sm80(a, stream)) return why;
  if (a.q.dims[3] != Tile::kDim) return Refusal::arguments("head dims other than 128");
  if (a.k.dims[1] < Tile::kKeys) return Refusal::arguments("fewer keys than a stage of 128");
  if (!alike(a.k, a.v)) return Refusal::arguments("strides of k that are not v's");
  constexpr int64_t kMostBytes = std::numeric_limits<uint32_t>::max();
  if (extent(a.k) * 2 > kMostBytes) return Refusal::arguments("more than 4 GiB of keys");
  if ((a.q.dims[1] + Tile::kRows) * std::max(a.q.strides[1], a.out.strides[1]) * 2 > kMostBytes)
    return Refusal::arguments("more than 4 GiB of queries");
  if (heads_of(a) * tiles_of(a) > std::numeric_limits<int>::max())
    return Refusal::arguments("too many queries");
  return flash::why_not(a, stream, Tile::kSharedBytes);
}

std::optional<Refusal> attention_why_not_stays_sm80_many_tiles(const AttentionArgs& a, const Stream& stream) {
  // No user needs to hear of this: flash_long_sm80 and flash_sm80 are the kernels for such GPUs.
  if (stream.gpu->info().shared_bytes < Tile::kSharedBytes)
    return Refusal::slower("a block of 154 KiB does not fit this GPU");
  if (auto why = attention_why_not_stays_sm80(a, stream)) return why;
  if (auto why = flash::why_library_first(a, stream)) return why;
  if (a.k.dims[1] < kLeastKeys)
    return Refusal::slower("there are fewer keys than ", std::to_string(kLeastKeys));
  if (heads_of(a) * tiles_of(a) < kLeastTiles * stream.gpu->info().multiprocessors)
    return Refusal::slower("there are fewer blocks of 256 queries than two for each multiprocessor");
  return std::nullopt;
}

void attention_stays_sm80(const AttentionArgs& a, Stream& stream) {
  const int tiles = static_cast<int>(tiles_of(a)), items = static_cast<int>(heads_of(a)) * tiles;
  ArenaScope scope(*stream.arena);
  auto* bad = static_cast<uint8_t*>(stream.arena->bytes(static_cast<size_t>(items) * Tile::kWarps));
  if (stream.measuring()) return;
  const float factor = a.scale == kPowersOfTwo ? 1 : a.scale * flash::kLog2e;
  cuda::launch(
      "attention (flash_stays_sm80)", flash::stays_attention_kernel<Tile>,
      {.grid = dim3(static_cast<unsigned>(std::min(items, stream.gpu->info().multiprocessors))),
       .block = dim3(Tile::kThreads),
       .shared_bytes = Tile::kSharedBytes},
      stream,
      flash::ByteParams{.to = flash::params_of(a), .bad = bad, .heads = static_cast<int>(a.q.dims[2])},
      factor, tiles, items);
  flash::compute_again(a, {.bad = bad, .tiles = tiles, .warps = Tile::kWarps}, stream);
}

}  // namespace tachy::ops
