// Attention in 8 bits by flash8_sm80.cuh, for every GPU since sm_80, bf16 and head dims up to 128, if the caller
// allows it, over all keys or over lists of their blocks. Blocks of queries for which 8 bits are too coarse are
// computed again in bf16.
#include "cuda/attention_tally.h"
#include "ops/attention/flash8_launch.cuh"
#include "ops/attention/flash8_lists_sm80.cuh"
#include "ops/attention/flash8_quantize_sm80.cuh"
#include "ops/attention/flash8_rows_sm80.cuh"
#include "ops/attention/flash_again.cuh"

namespace tachy::ops {
namespace {

// Stages of 128 keys are faster by 3 %, where a block may have that much shared memory.
using Small = flash::ByteTile<64, false>;
using Large = flash::ByteTile<128, false>;
using Half = flash::ByteTile<64, true>;
// A block of the grid has the queries of one list.
using Listed = flash::ByteTile<64, false, 4>;
using ListedHalf = flash::ByteTile<64, true, 4>;

template <class C, bool kListed = false>
void run(const AttentionArgs& a, Stream& stream) {
  const int64_t heads = a.q.dims[0] * a.q.dims[2], lq = a.q.dims[1], lk = a.k.dims[1];
  const auto tiles = static_cast<unsigned>((lq + C::kRows - 1) / C::kRows),
             all = static_cast<unsigned>(heads);
  ArenaScope scope(*stream.arena);
  const flash::Codes8 codes = flash::take_codes8(a, *stream.arena, C::kHalf);
  __half* v = nullptr;
  if (C::kHalf) flash::take8(*stream.arena, v, heads * lk * 128);
  uint8_t* bad = nullptr;
  flash::take8(*stream.arena, bad, heads * tiles * C::kWarps);
  cuda::AttentionTally* tally = cuda::attention_tally(*stream.gpu);
  if (stream.measuring()) return;
  flash::make_codes8(a, codes, flash::kTopInHalf, stream);
  if (C::kHalf)
    cuda::launch("attention (flash8_sm80, v)", flash::halve8,
                 {.grid = dim3(flash::blocks8(a.v), all), .block = dim3(256)}, stream, flash::tokens8(a.v),
                 codes.v_scales, v, codes.about);
  const flash::ByteParams p{.to = flash::params_of(a),
                            .q = codes.q,
                            .k = codes.k,
                            .v = v,
                            .q_scales = codes.q_scales,
                            .q_offsets = codes.q_offsets,
                            .k_scales = codes.k_scales,
                            .v_scales = codes.v_scales,
                            .about = codes.about,
                            .bad = bad,
                            .asked = reinterpret_cast<unsigned long long*>(&tally->asked),
                            .heads = static_cast<int>(a.q.dims[2])};
  const cuda::LaunchShape shape{dim3(tiles, all), dim3(C::kThreads), C::kSharedBytes};
  if constexpr (kListed)
    cuda::launch("attention (blocks8_sm80)", flash::byte_lists_kernel<C>, shape, stream, p,
                 flash::lists_of(a));
  else
    cuda::launch("attention (flash8_sm80)", flash::byte_attention_kernel<C>, shape, stream, p);
  flash::compute_again(a,
                       {.bad = bad,
                        .tiles = static_cast<int>(tiles),
                        .warps = C::kWarps,
                        .count = reinterpret_cast<unsigned long long*>(&tally->wide)},
                       stream);
}

// By their data sheets GeForce cards halve the rate of products with float32 sums, and no other does.
bool halves_wide_sums(const cuda::GpuInfo& gpu) { return gpu.name.find("GeForce") != std::string::npos; }

}  // namespace

std::optional<Refusal> attention_why_not_flash8_sm80(const AttentionArgs& a, const Stream& stream) {
  if (auto why = flash::why_not_eight_bits(a)) return why;
  if (a.q.dims[1] > flash::kMostQueries) return Refusal::arguments("too many queries");
  return flash::why_not(a, stream, Small::kSharedBytes);
}

std::optional<Refusal> attention_why_not_flash8_sm80_many_keys(const AttentionArgs& a, const Stream& stream) {
  if (auto why = attention_why_not_flash8_sm80(a, stream)) return why;
  return flash::why_slower_in_eight_bits(a);
}

void attention_flash8_sm80(const AttentionArgs& a, Stream& stream) {
  const cuda::GpuInfo& gpu = stream.gpu->info();
  if (halves_wide_sums(gpu)) return run<Half>(a, stream);
  gpu.shared_bytes >= Large::kSharedBytes ? run<Large>(a, stream) : run<Small>(a, stream);
}

void attention_flash8_sm80_half(const AttentionArgs& a, Stream& stream) { run<Half>(a, stream); }

std::optional<Refusal> attention_why_not_blocks8_sm80(const AttentionArgs& a, const Stream& stream) {
  if (!a.blocks.defined()) return Refusal::arguments("no lists of key blocks");
  if (a.blocks.cut()) return Refusal::arguments("blocks of other sizes");
  if (auto why = flash::why_not_rounded(a)) return why;
  if (a.q.dims[1] > flash::kMostQueries) return Refusal::arguments("too many queries");
  if (a.k.dims[1] < Listed::kKeys) return Refusal::arguments("fewer keys than a stage has");
  if (a.v.strides[1] > 1 << 26)
    return Refusal::arguments("it counts the bytes of eight rows of v in 32 bits");
  return flash::why_not(a, stream, Listed::kSharedBytes);
}

std::optional<Refusal> attention_why_not_blocks8_sm80_many_keys(const AttentionArgs& a,
                                                                const Stream& stream) {
  if (auto why = attention_why_not_blocks8_sm80(a, stream)) return why;
  return flash::why_slower_in_eight_bits(a);
}

void attention_blocks8_sm80(const AttentionArgs& a, Stream& stream) {
  halves_wide_sums(stream.gpu->info()) ? run<ListedHalf, true>(a, stream) : run<Listed, true>(a, stream);
}

void attention_blocks8_sm80_half(const AttentionArgs& a, Stream& stream) { run<ListedHalf, true>(a, stream); }

}  // namespace tachy::ops
