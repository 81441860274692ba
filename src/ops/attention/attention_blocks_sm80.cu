// Attention over lists of key blocks by flash_sm80.cuh, for every GPU since sm_80, in bf16 and f16, for head dims
// up to 64 and up to 128.
#include "cuda/dispatch.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/flash_params.cuh"

namespace tachy::ops {
namespace {

constexpr int kWarps = BlockLists::kTokens / 32, kStageKeys = 64;

template <class T, int kDim, int kBlocks>
void run(const AttentionArgs& a, Stream& stream) {
  const cuda::LaunchShape shape{dim3(cuda::blocks_for(a.q.dims[1], BlockLists::kTokens),
                                     static_cast<unsigned>(a.q.dims[2]), static_cast<unsigned>(a.q.dims[0])),
                                dim3(BlockLists::kTokens), flash::shared_bytes<kWarps, kStageKeys, kDim>()};
  cuda::launch("attention (blocks_sm80)", flash::attention_lists_kernel<T, kDim, kStageKeys, kBlocks>, shape,
               stream, flash::params_of(a), flash::lists_of(a));
}

template <class T>
void run_typed(const AttentionArgs& a, Stream& stream) {
  a.q.dims[3] <= 64 ? run<T, 64, 3>(a, stream) : run<T, 128, 2>(a, stream);
}

}  // namespace

std::optional<Refusal> attention_why_not_blocks_sm80(const AttentionArgs& a, const Stream& stream) {
  if (!a.blocks.defined()) return Refusal::arguments("no lists of key blocks");
  if (a.blocks.cut()) return Refusal::arguments("blocks of other sizes");
  return flash::why_not(a, stream,
                        a.q.dims[3] <= 64 ? flash::shared_bytes<kWarps, kStageKeys, 64>()
                                          : flash::shared_bytes<kWarps, kStageKeys, 128>());
}

void attention_blocks_sm80(const AttentionArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  a.q.dtype == DType::bf16 ? run_typed<__nv_bfloat16>(a, stream) : run_typed<__half>(a, stream);
}

}  // namespace tachy::ops
