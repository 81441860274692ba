// Attention by flash_sm90.cuh on Hopper, in bf16 and f16, for head dims up to 64 and up to 128.
#include "cuda/gpu_family.h"
#include "ops/attention/flash_params.cuh"
#include "ops/attention/flash_sm90_launch.cuh"

namespace tachy::ops {
namespace {

// The fastest variants of bench/lab/flash90_variants.cu: keys per step, for many keys and for few.
constexpr int kStepKeys = 192, kShortStepKeys = 128, kCluster = 2;
constexpr int64_t kManyKeys = 2048;

bool powers_of_two(const AttentionArgs& a) { return a.q.dtype == DType::bf16 && a.scale == kPowersOfTwo; }

template <class T, int kDim>
void run_typed(const AttentionArgs& a, Stream& stream) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    if (powers_of_two(a))
      return a.k.dims[1] < kManyKeys ? flash::run90<T, kDim, kShortStepKeys, kCluster, true>(a, stream)
                                     : flash::run90<T, kDim, kStepKeys, kCluster, true>(a, stream);
  flash::run90<T, kDim, kStepKeys, kCluster>(a, stream);
}

template <class T>
void run_typed(const AttentionArgs& a, Stream& stream) {
  a.q.dims[3] <= 64 ? run_typed<T, 64>(a, stream) : run_typed<T, 128>(a, stream);
}

}  // namespace

std::optional<Refusal> attention_why_not_sm90(const AttentionArgs& a, const Stream& stream) {
  if (auto why = why_not_whole(a)) return why;
  if (auto why = flash::why_not_masked(a)) return why;
  if (auto why = flash::why_not_sm90(a, stream)) return why;
  return flash::why_not(a, stream, flash::Tile90<__nv_bfloat16, 128, kStepKeys, kCluster>::kSharedBytes);
}

std::optional<Refusal> attention_why_not_sm90_many_keys(const AttentionArgs& a, const Stream& stream) {
  // With few keys a block's start and end take a larger part of the time, less so if nothing is subtracted
  // from the scores.
  const cuda::GpuFamily& family = cuda::family_of(stream.gpu->info());
  const int64_t least = powers_of_two(a) ? family.flash_keys_of_powers : family.flash_keys;
  if (a.k.dims[1] < least)
    return Refusal::slower("cuDNN is as fast where there are fewer keys than ", std::to_string(least));
  return attention_why_not_sm90(a, stream);
}

void attention_sm90(const AttentionArgs& a, Stream& stream) {
  a.q.dtype == DType::bf16 ? run_typed<__nv_bfloat16>(a, stream) : run_typed<__half>(a, stream);
}

}  // namespace tachy::ops
