// Attention over lists of key blocks that are cut to at most 64 tokens by flash_cuts_sm80.cuh, for every GPU since
// sm_80, in bf16 and f16, for head dims up to 64 and up to 128.
#include "cuda/dispatch.h"
#include "ops/attention/attention_cuts.h"
#include "ops/attention/flash_cuts_sm80.cuh"
#include "ops/attention/flash_params.cuh"

namespace tachy::ops {
namespace {

template <class T, int kDim, int kWarps>
void run(const AttentionArgs& a, Stream& stream) {
  const cuda::LaunchShape shape{dim3(static_cast<unsigned>(flash::blocks_of(a.blocks.queries, a.q.dims[1])),
                                     static_cast<unsigned>(a.q.dims[2]), static_cast<unsigned>(a.q.dims[0])),
                                dim3(kWarps * 32), flash::shared_bytes<kWarps, flash::kCutStage, kDim>()};
  cuda::launch("attention (cuts_sm80)", flash::attention_cuts_kernel<T, kDim, kWarps>, shape, stream,
               flash::params_of(a), flash::cut_lists_of(a));
}

template <class T, int kDim>
void run_typed(const AttentionArgs& a, Stream& stream) {
  // Blocks of queries that are not cut have twice as many.
  a.blocks.queries.defined() ? run<T, kDim, 2>(a, stream) : run<T, kDim, 4>(a, stream);
}

template <class T>
void run_typed(const AttentionArgs& a, Stream& stream) {
  a.q.dims[3] <= 64 ? run_typed<T, 64>(a, stream) : run_typed<T, 128>(a, stream);
}

}  // namespace

std::optional<Refusal> attention_why_not_cuts_sm80(const AttentionArgs& a, const Stream& stream) {
  if (auto why = flash::why_not_cuts(a)) return why;
  return flash::why_not(a, stream,
                        a.q.dims[3] <= 64 ? flash::shared_bytes<4, flash::kCutStage, 64>()
                                          : flash::shared_bytes<4, flash::kCutStage, 128>());
}

void attention_cuts_sm80(const AttentionArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  a.q.dtype == DType::bf16 ? run_typed<__nv_bfloat16>(a, stream) : run_typed<__half>(a, stream);
}

}  // namespace tachy::ops
