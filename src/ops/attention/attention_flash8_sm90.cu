// Attention in 8 bits by flash8_sm90.cuh for Hopper, bf16 and head dims up to 128, if the caller allows it.
// Units for which 8 bits are too coarse are computed again in bf16.
#include "cuda/attention_tally.h"
#include "ops/attention/flash8_launch.cuh"
#include "ops/attention/flash8_quantize_sm90.cuh"
#include "ops/attention/flash8_rows_sm90.cuh"
#include "ops/attention/flash_sm90_launch.cuh"

namespace tachy::ops {
namespace {

using flash::Tile8;

// The instance with which attention_sm90.cu also repairs.
using Repair = flash::Tile90<__nv_bfloat16, 128, 192, Tile8::kCluster, false, true>;
static_assert(Repair::kUnitRows == Tile8::kUnitRows);

// A map of [heads, rows, row_bytes] bytes in boxes of 128 bytes and 64 rows.
CUtensorMap bytes_map(const void* data, int64_t row_bytes, int64_t rows, int64_t heads) {
  return cuda::make_tensor_map("attention", DType::bf16, data,
                               {.rank = 4,  // as pairs of bytes
                                .dims = {row_bytes / 2, rows, heads, 1},
                                .strides = {1, row_bytes / 2, row_bytes / 2 * rows, 8},
                                .box = {64, 64, 1, 1}});
}

// Allocates room for notes and shares.
void take_results(Arena& arena, flash::Params90& p, int clusters) {
  flash::take8(arena, p.outgrown, int64_t{p.whole_units + p.cut_units} * Tile8::kNotes);
  if (p.cut_units == 0) return;
  const int64_t rows = int64_t{2} * clusters * Tile8::kUnitRows;
  flash::take8(arena, p.shares, rows * Tile8::kDim), flash::take8(arena, p.share_sums, rows);
}

}  // namespace

std::optional<Refusal> attention_why_not_flash8(const AttentionArgs& a, const Stream& stream) {
  if (auto why = flash::why_not_eight_bits(a)) return why;
  if (auto why = flash::why_not_sm90(a, stream)) return why;
  return flash::why_not(a, stream, std::max(Tile8::kSharedBytes, Repair::kSharedBytes));
}

std::optional<Refusal> attention_why_not_flash8_many_keys(const AttentionArgs& a, const Stream& stream) {
  if (auto why = attention_why_not_flash8(a, stream)) return why;
  return flash::why_slower_in_eight_bits(a);
}

void attention_flash8(const AttentionArgs& a, Stream& stream) {
  const int64_t heads = a.q.dims[0] * a.q.dims[2];
  flash::Params8 p{.to = flash::params90(a)};
  const int clusters = flash::share_out<Tile8>(a, stream, p.to), units = p.to.whole_units + p.to.cut_units;
  p.steps = flash::steps90<Tile8>(p.to);
  ArenaScope scope(*stream.arena);
  const flash::Codes8 s = flash::take_codes8(a, *stream.arena, true);
  uint8_t* v = nullptr;
  flash::take8(*stream.arena, v, heads * 128 * p.steps * Tile8::kKeys);
  take_results(*stream.arena, p.to, clusters);
  cuda::AttentionTally* tally = cuda::attention_tally(*stream.gpu);
  if (stream.measuring()) return;
  p.asked = reinterpret_cast<unsigned long long*>(&tally->asked);
  p.q_scales = s.q_scales, p.q_offsets = s.q_offsets, p.k_scales = s.k_scales, p.v_scales = s.v_scales;
  p.about = s.about;
  flash::make_codes8<128>(a, flash::tokens8(a.k), flash::tokens8(a.v), s, flash::kTopOfSample, stream);
  cuda::launch(
      "attention (flash8_sm90, v)", flash::transpose8,
      {.grid = dim3(static_cast<unsigned>(p.steps), static_cast<unsigned>(heads)), .block = dim3(256)},
      stream, flash::tokens8(a.v), s.v_scales, int64_t{p.steps} * Tile8::kKeys, v, s.about);
  const flash::Maps8 maps{bytes_map(s.q, 128, p.to.lq, heads), bytes_map(s.k, 128, p.to.lk, heads),
                          bytes_map(v, int64_t{p.steps} * Tile8::kKeys, 128, heads)};
  cuda::launch("attention (flash8_sm90)", flash::flash8_kernel,
               {.grid = dim3(static_cast<unsigned>(clusters * Tile8::kCluster)),
                .block = dim3(384),
                .shared_bytes = Tile8::kSharedBytes,
                .cluster = Tile8::kCluster},
               stream, maps, p);
  if (p.to.cut_units > 0)
    cuda::launch(
        "attention (flash8_sm90, merge)", flash::flash90_merge<Tile8>,
        {.grid = dim3(Tile8::kUnitRows / 8, static_cast<unsigned>(p.to.cut_units)), .block = dim3(256)},
        stream, p.to, clusters);
  p.to.cut_units = 0, p.to.whole_units = units;
  p.to.again = reinterpret_cast<unsigned long long*>(&tally->wide);
  flash::launch90<Repair>("attention (flash8_sm90, in bf16)", a, p.to, std::min(clusters, units), stream);
}

}  // namespace tachy::ops
