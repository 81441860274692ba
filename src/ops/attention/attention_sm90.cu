// Attention by flash_sm90.cuh: Hopper, bf16 and f16, head dims up to 64 and up to 128.
#include "cuda/gpu_family.h"
#include "ops/attention/flash_params.cuh"
#include "ops/attention/flash_sm90_launch.cuh"

namespace tachy::ops {
namespace {

constexpr int kStepKeys = 192, kCluster = 2;  // the fastest of bench/lab/flash90_variants.cu

template <class T>
void run_typed(const AttentionArgs& a, Stream& stream) {
  if (a.q.dims[3] <= 64)
    flash::run90<T, 64, kStepKeys, kCluster>(a, stream);
  else
    flash::run90<T, 128, kStepKeys, kCluster>(a, stream);
}

}  // namespace

std::optional<Refusal> attention_why_not_sm90(const AttentionArgs& a, const Stream& stream) {
  if (stream.gpu->info().major != 9) return Refusal::machine("the GPU is not Hopper");
  if (!cuda::tensor_maps_available()) return Refusal::machine("the driver has no tensor maps");
  if (a.bias.defined()) return Refusal::arguments("a bias of each query and key");
  if (a.key_bias.defined()) return Refusal::arguments("a key bias");
  if (a.causal) return Refusal::arguments("a causal mask");
  if (a.accumulate) return Refusal::arguments("an accumulating output");
  return flash::why_not(a, stream, flash::Tile90<__nv_bfloat16, 128, kStepKeys, kCluster>::kSharedBytes);
}

std::optional<Refusal> attention_why_not_sm90_many_keys(const AttentionArgs& a, const Stream& stream) {
  // With few keys a block's start and end weigh more.
  const int64_t least = cuda::family_of(stream.gpu->info()).flash_keys;
  if (a.k.dims[1] < least)
    return Refusal::slower("cuDNN is as fast where there are fewer keys than ", std::to_string(least));
  return attention_why_not_sm90(a, stream);
}

void attention_sm90(const AttentionArgs& a, Stream& stream) {
  a.q.dtype == DType::bf16 ? run_typed<__nv_bfloat16>(a, stream) : run_typed<__half>(a, stream);
}

}  // namespace tachy::ops
