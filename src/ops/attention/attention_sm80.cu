// Launches flash attention (flash_sm80.cuh holds the kernel) for head dims up to 64 and up to 128, in bf16
// and f16.
//
// Tiles were measured on an H100 (bench/notes/attention_and_gemm.md).
#include "cuda/dispatch.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/flash_params.cuh"

namespace tachy::ops {
namespace {

constexpr int kWarps = 4, kStageKeys = 64;
constexpr int64_t kLeastKeys = 128;  // fewer were not compared with a library's kernel

template <class T, int kDim, int kBlocks, flash::Bias kBias>
void run(const AttentionArgs& a, Stream& stream) {
  constexpr int kRows = kWarps * 32;
  const cuda::LaunchShape shape{dim3(cuda::blocks_for(a.q.dims[1], kRows), static_cast<unsigned>(a.q.dims[2]),
                                     static_cast<unsigned>(a.q.dims[0])),
                                dim3(kRows), flash::shared_bytes<kWarps, kStageKeys, kDim>()};
  cuda::launch("attention (flash_sm80)", flash::attention_kernel<T, kDim, kWarps, kStageKeys, kBlocks, kBias>,
               shape, stream, flash::params_of(a));
}

template <class T, int kDim, int kBlocks>
void run_biased(const AttentionArgs& a, Stream& stream) {
  if (a.bias.defined())
    run<T, kDim, 2, flash::Bias::full>(a, stream);
  else if (a.key_bias.defined())
    run<T, kDim, 2, flash::Bias::keys>(a, stream);
  else
    run<T, kDim, kBlocks, flash::Bias::none>(a, stream);
}

template <class T>
void run_typed(const AttentionArgs& a, Stream& stream) {
  if (a.q.dims[3] <= 64)
    run_biased<T, 64, 3>(a, stream);
  else
    run_biased<T, 128, 2>(a, stream);
}

}  // namespace

std::optional<Refusal> attention_why_not_sm80(const AttentionArgs& a, const Stream& stream) {
  if (auto why = why_not_whole(a)) return why;
  const size_t shared = a.q.dims[3] <= 64 ? flash::shared_bytes<kWarps, kStageKeys, 64>()
                                          : flash::shared_bytes<kWarps, kStageKeys, 128>();
  return flash::why_not(a, stream, shared);
}

std::optional<Refusal> attention_why_not_sm80_before_library(const AttentionArgs& a, const Stream& stream) {
  if (auto why = attention_why_not_sm80(a, stream)) return why;
  if (auto why = flash::why_not_masked(a)) return why;
  if (a.bias.defined()) return Refusal::arguments("a bias of each query and key");
  if (auto why = flash::why_library_first(a, stream)) return why;
  if (a.k.dims[1] < kLeastKeys)
    return Refusal::slower("there are fewer keys than ", std::to_string(kLeastKeys));
  return std::nullopt;
}

void attention_sm80(const AttentionArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  a.q.dtype == DType::bf16 ? run_typed<__nv_bfloat16>(a, stream) : run_typed<__half>(a, stream);
}

}  // namespace tachy::ops
