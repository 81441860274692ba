// Flash attention's launcher (flash_sm80.cuh holds the kernel): head dims up to 64 and up to 128, bf16 and
// f16.
//
// Tiles measured on an H100 (bench/NOTES.md).
#include "cuda/dispatch.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/flash_sm80.cuh"

namespace tachy::ops {
namespace {

flash::Strides strides_of(const Tensor& t) { return {t.strides[0], t.strides[1], t.strides[2]}; }

bool whole_chunks(const Tensor& t) {
  for (int i = 0; i < 3; ++i)
    if (t.dims[i] > 1 && t.strides[i] % 8 != 0) return false;
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0;
}

flash::Params params_of(const AttentionArgs& a) {
  flash::Params p{a.q.data,        a.k.data,        a.v.data,        a.out.data,
                  strides_of(a.q), strides_of(a.k), strides_of(a.v), strides_of(a.out)};
  p.lq = static_cast<int>(a.q.dims[1]), p.lk = static_cast<int>(a.k.dims[1]);
  p.d = static_cast<int>(a.q.dims[3]), p.offset = static_cast<int>(a.causal_offset);
  p.scale = a.scale, p.causal = a.causal, p.accumulate = a.accumulate;
  if (a.key_bias.defined())
    p.key_bias = static_cast<const float*>(a.key_bias.data), p.key_bias_batch = a.key_bias.strides[0];
  if (a.bias.defined())
    p.bias = static_cast<const float*>(a.bias.data), p.bias_head = a.bias.strides[0],
    p.bias_row = a.bias.strides[1];
  if (a.lse.defined())
    p.lse = static_cast<float*>(a.lse.data), p.lse_batch = a.lse.strides[0], p.lse_head = a.lse.strides[1];
  return p;
}

template <class T, int kDim, int kBlocks, flash::Bias kBias>
void run(const AttentionArgs& a, Stream& stream) {
  constexpr int kWarps = 4, kStageKeys = 64, kRows = kWarps * 32;
  const cuda::LaunchShape shape{dim3(cuda::blocks_for(a.q.dims[1], kRows), static_cast<unsigned>(a.q.dims[2]),
                                     static_cast<unsigned>(a.q.dims[0])),
                                dim3(kRows), flash::shared_bytes<kWarps, kStageKeys, kDim>()};
  cuda::launch("attention (flash_sm80)", flash::attention_kernel<T, kDim, kWarps, kStageKeys, kBlocks, kBias>,
               shape, stream, params_of(a));
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

std::optional<std::string> attention_why_not_sm80(const AttentionArgs& a, const Stream& stream) {
  if (a.q.dtype == DType::f32) return "it takes bf16 and f16";
  if (stream.gpu->info().capability() < 80) return "it needs compute capability 8.0";
  if (a.q.dims[3] > 128) return "head dims over 128";
  if (a.q.dims[3] % 8 != 0) return "the head dim is no multiple of 8";
  if (!(a.scale > 0)) return "the scale is not positive";
  for (const Tensor* t : {&a.q, &a.k, &a.v, &a.out})
    if (!whole_chunks(*t)) return "rows that do not begin at multiples of 16 bytes";
  if (a.q.dims[1] > (int64_t{1} << 30) || a.k.dims[1] > (int64_t{1} << 30)) return "too many tokens";
  if (a.q.dims[2] > 65535 || a.q.dims[0] > 65535) return "too many heads or batches";
  return std::nullopt;
}

void attention_sm80(const AttentionArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  a.q.dtype == DType::bf16 ? run_typed<__nv_bfloat16>(a, stream) : run_typed<__half>(a, stream);
}

}  // namespace tachy::ops
