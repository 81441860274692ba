// Launches flash_sm80.cuh over several ranges of keys, or over one whose length lies on the device.
#include "cuda/dispatch.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/flash_params.cuh"

namespace tachy::ops {
namespace {

constexpr int kWarps = 4, kStageKeys = 64, kRows = kWarps * 32;

template <class T, int kDim>
void run(const AttentionArgs& a, Stream& stream) {
  const cuda::LaunchShape shape{dim3(cuda::blocks_for(a.q.dims[1], kRows), static_cast<unsigned>(a.q.dims[2]),
                                     static_cast<unsigned>(a.q.dims[0])),
                                dim3(kRows), flash::shared_bytes<kWarps, kStageKeys, kDim>()};
  cuda::launch("attention (ranges_sm80)", flash::attention_ranges_kernel<T, kDim, kWarps, kStageKeys, 2>,
               shape, stream, flash::params_of(a), flash::key_list(a));
}

template <class T>
void run_typed(const AttentionArgs& a, Stream& stream) {
  a.q.dims[3] <= 64 ? run<T, 64>(a, stream) : run<T, 128>(a, stream);
}

}  // namespace

std::optional<Refusal> attention_why_not_ranges_sm80(const AttentionArgs& a, const Stream& stream) {
  if (auto why = why_not_listed(a)) return why;
  if (a.whole()) return Refusal::slower("one range of keys, all of them there: flash_sm80 walks over it");
  if (a.bias.defined()) return Refusal::arguments("a bias of each query and key");
  const size_t shared = a.q.dims[3] <= 64 ? flash::shared_bytes<kWarps, kStageKeys, 64>()
                                          : flash::shared_bytes<kWarps, kStageKeys, 128>();
  return flash::why_not(a, stream, shared);
}

void attention_ranges_sm80(const AttentionArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  a.q.dtype == DType::bf16 ? run_typed<__nv_bfloat16>(a, stream) : run_typed<__half>(a, stream);
}

}  // namespace tachy::ops
