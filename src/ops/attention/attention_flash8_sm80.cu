// Attention in 8 bits by flash8_sm80.cuh, for every GPU since sm_80, bf16 and head dims up to 64 and up to 128, if
// the caller allows it, over all keys, over ranges of them, or over lists of their blocks; with masks and key biases in
// attention_flash8_masks_sm80.cu. Blocks of queries for which 8 bits are too coarse are computed again in bf16.
#include "ops/attention/flash8_lists_sm80.cuh"
#include "ops/attention/flash8_run_sm80.cuh"

namespace tachy::ops {
namespace {

// Stages of 128 keys are faster by 3 %, where a block may have that much shared memory.
using Small = flash::ByteTile<64, false>;
using Large = flash::ByteTile<128, false>;
using Half = flash::ByteTile<64, true>;
// Head dims up to 64, for all cards: smaller stages or fewer warps are 4 to 7 % slower.
using Narrow = flash::ByteTile<128, false, 12, 64>;
using NarrowHalf = flash::ByteTile<64, true, 8, 64>;
// A block of the grid has the queries of one list.
using Listed = flash::ByteTile<64, false, 4>;
using ListedHalf = flash::ByteTile<64, true, 4>;

using flash::By;

template <class C, By kBy>
void run(const AttentionArgs& a, Stream& stream) {
  flash::run8<C, kBy>(a, stream, [&](const flash::ByteParams& p, const dim3& grid) {
    const cuda::LaunchShape shape{grid, dim3(C::kThreads), C::kSharedBytes};
    if constexpr (kBy == By::lists)
      cuda::launch("attention (blocks8_sm80)", flash::byte_lists_kernel<C>, shape, stream, p,
                   flash::lists_of(a));
    else if constexpr (kBy == By::ranges)
      cuda::launch("attention (flash8_sm80, ranges)", flash::byte_ranges_kernel<C>, shape, stream, p,
                   flash::joined8(a, &KeyRange::k).keys);
    else
      cuda::launch("attention (flash8_sm80)", flash::byte_attention_kernel<C>, shape, stream, p);
  });
}

template <class C>
void run_by(const AttentionArgs& a, Stream& stream) {
  a.whole() ? run<C, By::whole>(a, stream) : run<C, By::ranges>(a, stream);
}

bool masked(const AttentionArgs& a) { return flash::why_not_masked(a).has_value(); }

// By their data sheets GeForce cards halve the rate of products with float32 sums, and no other does.
bool halves_wide_sums(const cuda::GpuInfo& gpu) { return gpu.name.find("GeForce") != std::string::npos; }

}  // namespace

std::optional<Refusal> attention_why_not_flash8_sm80(const AttentionArgs& a, const Stream& stream) {
  if (auto why = flash::why_not_rounded(a)) return why;
  if (auto why = why_not_listed(a)) return why;
  if (flash::all_keys(a) > int64_t{1} << 30) return Refusal::arguments("too many keys");
  if (a.q.dims[1] > flash::kMostQueries) return Refusal::arguments("too many queries");
  if (masked(a)) return flash::why_not(a, stream, attention_flash8_masks_shared(a));
  return flash::why_not(a, stream, a.q.dims[3] <= 64 ? Narrow::kSharedBytes : Small::kSharedBytes);
}

std::optional<Refusal> attention_why_not_flash8_sm80_many_keys(const AttentionArgs& a, const Stream& stream) {
  if (auto why = attention_why_not_flash8_sm80(a, stream)) return why;
  if ((!a.whole() || masked(a) || a.q.dims[3] <= 64) && stream.gpu->info().capability() / 10 == 9)
    return Refusal::slower("Hopper's kernels for ranges, masks and 64 channels are faster in 16 bits");
  return flash::why_slower_of_few(a);
}

void attention_flash8_sm80(const AttentionArgs& a, Stream& stream) {
  const cuda::GpuInfo& gpu = stream.gpu->info();
  if (masked(a)) return attention_flash8_masks_sm80(a, halves_wide_sums(gpu), stream);
  if (halves_wide_sums(gpu)) return attention_flash8_sm80_half(a, stream);
  if (a.q.dims[3] <= 64) return run_by<Narrow>(a, stream);
  gpu.shared_bytes >= Large::kSharedBytes&& a.whole() ? run<Large, By::whole>(a, stream)
                                                      : run_by<Small>(a, stream);
}

void attention_flash8_sm80_half(const AttentionArgs& a, Stream& stream) {
  if (masked(a)) return attention_flash8_masks_sm80(a, true, stream);
  a.q.dims[3] <= 64 ? run_by<NarrowHalf>(a, stream) : run_by<Half>(a, stream);
}

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
  halves_wide_sums(stream.gpu->info()) ? run<ListedHalf, By::lists>(a, stream)
                                       : run<Listed, By::lists>(a, stream);
}

void attention_blocks8_sm80_half(const AttentionArgs& a, Stream& stream) {
  run<ListedHalf, By::lists>(a, stream);
}

}  // namespace tachy::ops
