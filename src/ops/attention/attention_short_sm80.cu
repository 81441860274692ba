// Attention of some hundred keys in bf16 by flash_short_sm80.cuh.
#include <algorithm>

#include "ops/attention/flash_again.cuh"
#include "ops/attention/flash_params.cuh"
#include "ops/attention/flash_short_sm80.cuh"

namespace tachy::ops {

// With fewer keys a tile's beginning and end are most of it; with more, larger stages are faster.
constexpr int64_t kLeastKeys = 256, kMostKeys = 2047;

std::optional<Refusal> attention_why_not_short_sm80(const AttentionArgs& a, const Stream& stream) {
  if (auto why = attention_why_not_long_sm80(a, stream)) return why;
  if (a.q.dims[3] <= 64) return Refusal::arguments("head dims up to 64");
  return flash::why_not(a, stream, flash::ShortTile::kSharedBytes);
}

std::optional<Refusal> attention_why_not_short_sm80_hundreds(const AttentionArgs& a, const Stream& stream) {
  if (auto why = attention_why_not_short_sm80(a, stream)) return why;
  if (auto why = flash::why_library_first(stream)) return why;
  if (a.k.dims[1] < kLeastKeys)
    return Refusal::slower("there are fewer keys than ", std::to_string(kLeastKeys));
  if (a.k.dims[1] > kMostKeys) return Refusal::slower("there are more keys than ", std::to_string(kMostKeys));
  return std::nullopt;
}

void attention_short_sm80(const AttentionArgs& a, Stream& stream) {
  using C = flash::ShortTile;
  const int64_t heads = a.q.dims[0] * a.q.dims[2], tiles = (a.q.dims[1] + C::kRows - 1) / C::kRows;
  ArenaScope scope(*stream.arena);
  auto* bad = static_cast<uint8_t*>(stream.arena->bytes(static_cast<size_t>(heads * tiles * C::kWarps)));
  if (stream.measuring()) return;
  const float factor = a.scale == kPowersOfTwo ? 1 : a.scale * flash::kLog2e;
  const int64_t blocks = std::min<int64_t>(heads * tiles, stream.gpu->info().multiprocessors);
  cuda::launch(
      "attention (flash_short_sm80)", flash::short_attention_kernel,
      {.grid = dim3(static_cast<unsigned>(blocks)),
       .block = dim3(C::kThreads),
       .shared_bytes = C::kSharedBytes},
      stream,
      flash::ByteParams{.to = flash::params_of(a), .bad = bad, .heads = static_cast<int>(a.q.dims[2])},
      factor, static_cast<int>(tiles), static_cast<int>(heads * tiles));
  flash::compute_again(a, {.bad = bad, .tiles = static_cast<int>(tiles), .warps = C::kWarps}, stream);
}

}  // namespace tachy::ops
