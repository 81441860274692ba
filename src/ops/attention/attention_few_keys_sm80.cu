// Launches few_keys_sm80.cuh for up to 48 or 80 keys, head dims up to 64 and up to 128, bf16 and f16. There
// are about twice as many blocks as run at a time, so that the last ones end together. With room for 128 keys
// a multiprocessor would have two blocks of four warps, which are too few: no faster than flash_sm80 at 40
// heads (bench/notes/transformer.md).
#include "cuda/dispatch.h"
#include "ops/attention/few_keys_sm80.cuh"
#include "ops/attention/flash_params.cuh"

namespace tachy::ops {
namespace {

constexpr int kMostKeys = 80, kWarps = 4;

template <class T, int kDim, int kKeys, int kBlocks>
void run(const AttentionArgs& a, Stream& stream) {
  const int64_t others = a.q.dims[2] * a.q.dims[0];
  const int64_t most = 2 * kBlocks * int64_t{stream.gpu->info().multiprocessors};
  const int64_t tiles = cuda::blocks_for(a.q.dims[1], kWarps * flash::kFewRows);
  const int64_t blocks = std::clamp<int64_t>((most + others - 1) / others, 1, tiles);
  const cuda::LaunchShape shape{dim3(static_cast<unsigned>(a.q.dims[2]), static_cast<unsigned>(blocks),
                                     static_cast<unsigned>(a.q.dims[0])),
                                dim3(kWarps * 32), flash::few_keys_shared_bytes<kWarps, kKeys, kDim>()};
  cuda::launch("attention (few_keys_sm80)", flash::few_keys_kernel<T, kDim, kKeys, kWarps, kBlocks>, shape,
               stream, flash::params_of(a));
}

template <class T, int kDim>
void run_keys(const AttentionArgs& a, Stream& stream) {
  if (a.k.dims[1] <= 48)
    run<T, kDim, 48, 3>(a, stream);
  else
    run<T, kDim, kMostKeys, 3>(a, stream);
}

template <class T>
void run_typed(const AttentionArgs& a, Stream& stream) {
  a.q.dims[3] <= 64 ? run_keys<T, 64>(a, stream) : run_keys<T, 128>(a, stream);
}

template <int kDim>
size_t shared_bytes_of(int64_t keys) {
  return keys <= 48 ? flash::few_keys_shared_bytes<kWarps, 48, kDim>()
                    : flash::few_keys_shared_bytes<kWarps, kMostKeys, kDim>();
}
size_t shared_bytes(const AttentionArgs& a) {
  return a.q.dims[3] <= 64 ? shared_bytes_of<64>(a.k.dims[1]) : shared_bytes_of<128>(a.k.dims[1]);
}

}  // namespace

std::optional<Refusal> attention_why_not_few_keys(const AttentionArgs& a, const Stream& stream) {
  if (auto why = why_not_whole(a)) return why;
  if (a.k.dims[1] > kMostKeys) return Refusal::arguments("more than 80 keys");
  if (a.bias.defined()) return Refusal::arguments("a bias of each query and key");
  if (a.causal) return Refusal::arguments("a causal mask");
  if (a.accumulate) return Refusal::arguments("an accumulating output");
  return flash::why_not(a, stream, shared_bytes(a));
}

void attention_few_keys(const AttentionArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  a.q.dtype == DType::bf16 ? run_typed<__nv_bfloat16>(a, stream) : run_typed<__half>(a, stream);
}

}  // namespace tachy::ops
