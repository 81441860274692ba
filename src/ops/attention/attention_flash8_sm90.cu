// Attention in 8 bits by flash8_sm90.cuh for Hopper, bf16 and head dims up to 128, if the caller allows it.
// Units for which 8 bits are too coarse are computed again in bf16.
#include "cuda/attention_tally.h"
#include "ops/attention/flash8_quantize_sm90.cuh"
#include "ops/attention/flash8_rows_sm90.cuh"
#include "ops/attention/flash_params.cuh"
#include "ops/attention/flash_sm90_launch.cuh"

namespace tachy::ops {
namespace {

using flash::Tile8;

// From about 1,200 keys on, the time that rounding takes is won back.
constexpr int64_t kLeastKeys = 2048;
// The instance with which attention_sm90.cu also repairs.
using Repair = flash::Tile90<__nv_bfloat16, 128, 192, Tile8::kCluster, false, true>;
static_assert(Repair::kUnitRows == Tile8::kUnitRows);

flash::Tokens8 tokens_of(const Tensor& t) {
  return {static_cast<const __nv_bfloat16*>(t.data),
          t.strides[0],
          t.strides[1],
          t.strides[2],
          static_cast<int>(t.dims[1]),
          static_cast<int>(t.dims[2]),
          static_cast<int>(t.dims[3])};
}

// A map of [heads, rows, row_bytes] bytes in boxes of 128 bytes and 64 rows.
CUtensorMap bytes_map(const void* data, int64_t row_bytes, int64_t rows, int64_t heads) {
  return cuda::make_tensor_map("attention", DType::bf16, data,
                               {.rank = 4,  // as pairs of bytes
                                .dims = {row_bytes / 2, rows, heads, 1},
                                .strides = {1, row_bytes / 2, row_bytes / 2 * rows, 8},
                                .box = {64, 64, 1, 1}});
}

// Data that the kernels pass to one another, in the arena.
struct Scratch {
  int8_t *q, *k;
  uint8_t* v;
  float *q_scales, *q_offsets, *k_scales, *v_scales;
  __nv_bfloat16* k_means;
  flash::Head8* about;
};

template <class T>
void take(Arena& arena, T*& to, int64_t count) {
  to = static_cast<T*>(arena.bytes(static_cast<size_t>(count) * sizeof(T)));
}

Scratch scratch_of(Arena& arena, int64_t heads, const flash::Params8& p) {
  const int64_t lq = p.to.lq, lk = p.to.lk;
  Scratch s{};
  take(arena, s.q, heads * lq * 128), take(arena, s.k, heads * lk * 128);
  take(arena, s.v, heads * 128 * p.steps * Tile8::kKeys);
  take(arena, s.q_scales, heads * lq), take(arena, s.k_scales, heads * p.steps);
  if (p.to.lse) take(arena, s.q_offsets, heads * lq);
  take(arena, s.v_scales, heads * 128), take(arena, s.k_means, heads * 128), take(arena, s.about, heads);
  return s;
}

// Allocates room for notes and shares.
void take_results(Arena& arena, flash::Params90& p, int clusters) {
  take(arena, p.outgrown, int64_t{p.whole_units + p.cut_units} * Tile8::kNotes);
  if (p.cut_units == 0) return;
  const int64_t rows = int64_t{2} * clusters * Tile8::kUnitRows;
  take(arena, p.shares, rows * Tile8::kDim), take(arena, p.share_sums, rows);
}

void quantize(const AttentionArgs& a, const Scratch& s, const flash::Params8& p, Stream& stream) {
  const auto heads = static_cast<unsigned>(a.q.dims[0] * a.q.dims[2]), steps = static_cast<unsigned>(p.steps);
  const unsigned q_blocks = static_cast<unsigned>((p.to.lq + 127) / 128);
  const flash::Tokens8 q = tokens_of(a.q), k = tokens_of(a.k), v = tokens_of(a.v);
  cuda::launch("attention (flash8_sm90, samples)", flash::sample8, {.grid = dim3(heads), .block = dim3(1024)},
               stream, k, v, s.k_means, s.v_scales, s.about);
  cuda::launch("attention (flash8_sm90, k)", flash::turn8<true>,
               {.grid = dim3(steps, heads), .block = dim3(512)}, stream, k, s.k_means, 1.0f, s.k, s.k_scales,
               nullptr, s.about);
  cuda::launch("attention (flash8_sm90, q)", flash::turn8<false>,
               {.grid = dim3(q_blocks, heads), .block = dim3(512)}, stream, q, s.k_means,
               p.to.scale_log2 / 128, s.q, s.q_scales, s.q_offsets, s.about);
  cuda::launch("attention (flash8_sm90, v)", flash::transpose8,
               {.grid = dim3(steps, heads), .block = dim3(256)}, stream, v, s.v_scales,
               int64_t{p.steps} * Tile8::kKeys, s.v, s.about);
}

}  // namespace

std::optional<Refusal> attention_why_not_flash8(const AttentionArgs& a, const Stream& stream) {
  if (!a.eight_bits) return Refusal::settings("8 bits are not asked for");
  if (auto why = why_not_whole(a)) return why;
  if (a.q.dtype != DType::bf16) return Refusal::arguments("activations that are not bf16");
  if (auto why = flash::why_not_masked(a)) return why;
  if (auto why = flash::why_not_sm90(a, stream)) return why;
  if (a.q.dims[0] * a.q.dims[2] > 65535) return Refusal::arguments("too many heads");
  return flash::why_not(a, stream, std::max(Tile8::kSharedBytes, Repair::kSharedBytes));
}

std::optional<Refusal> attention_why_not_flash8_many_keys(const AttentionArgs& a, const Stream& stream) {
  if (auto why = attention_why_not_flash8(a, stream)) return why;
  if (a.k.dims[1] < kLeastKeys && !a.eight_bits_of_few)
    return Refusal::slower("there are fewer keys than ", std::to_string(kLeastKeys));
  if (a.q.dims[3] <= 64) return Refusal::slower("half of the channels would be zeros");
  return std::nullopt;
}

void attention_flash8(const AttentionArgs& a, Stream& stream) {
  const int64_t heads = a.q.dims[0] * a.q.dims[2];
  flash::Params8 p{.to = flash::params90(a)};
  const int clusters = flash::share_out<Tile8>(a, stream, p.to), units = p.to.whole_units + p.to.cut_units;
  p.steps = flash::steps90<Tile8>(p.to);
  ArenaScope scope(*stream.arena);
  const Scratch s = scratch_of(*stream.arena, heads, p);
  take_results(*stream.arena, p.to, clusters);
  cuda::AttentionTally* tally = cuda::attention_tally(*stream.gpu);
  if (stream.measuring()) return;
  p.asked = reinterpret_cast<unsigned long long*>(&tally->asked);
  p.q_scales = s.q_scales, p.q_offsets = s.q_offsets, p.k_scales = s.k_scales, p.v_scales = s.v_scales;
  p.about = s.about;
  quantize(a, s, p, stream);
  const flash::Maps8 maps{bytes_map(s.q, 128, p.to.lq, heads), bytes_map(s.k, 128, p.to.lk, heads),
                          bytes_map(s.v, int64_t{p.steps} * Tile8::kKeys, 128, heads)};
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
