// The common code of the flash kernels' launchers: the op's arguments in the form that the kernels take, and
// which arguments they accept.
#pragma once

#include "cuda/dispatch.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/flash_sm80.cuh"

namespace tachy::ops::flash {

inline bool whole_chunks(const Tensor& t) {
  for (int i = 0; i < 3; ++i)
    if (t.dims[i] > 1 && t.strides[i] % 8 != 0) return false;
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0;
}

inline Params params_of(const AttentionArgs& a) {
  Params p{a.q.data,        a.k.data,        a.v.data,        a.out.data,
           strides_of(a.q), strides_of(a.k), strides_of(a.v), strides_of(a.out)};
  p.lq = static_cast<int>(a.q.dims[1]), p.lk = static_cast<int>(a.k.dims[1]);
  p.d = static_cast<int>(a.q.dims[3]), p.offset = static_cast<int>(a.causal_offset),
  p.block = static_cast<int>(a.causal_block),
  p.window = static_cast<int>(std::min<int64_t>(a.window, 1 << 30));
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

// Nothing, or the reason why a kernel with that much shared memory per block cannot take these arguments.
inline std::optional<Refusal> why_not(const AttentionArgs& a, const Stream& stream, size_t shared_bytes) {
  if (auto why = cuda::why_no_tensor_cores(stream, a.q.dtype, shared_bytes)) return why;
  if (a.q.dims[3] > 128) return Refusal::arguments("head dims over 128");
  if (a.q.dims[3] % 8 != 0) return Refusal::arguments("the head dim is no multiple of 8");
  if (!(a.scale > 0)) return Refusal::arguments("the scale is not positive");
  constexpr int64_t kMostTokens = int64_t{1} << 30;
  if (!whole_chunks(a.q) || !whole_chunks(a.out))
    return Refusal::arguments("rows that do not begin at multiples of 16 bytes");
  for (int i = 0; i < a.ranges(); ++i) {
    const KeyRange r = a.range(i);
    if (!whole_chunks(r.k) || !whole_chunks(r.v))
      return Refusal::arguments("rows that do not begin at multiples of 16 bytes");
    if (a.q.dims[1] > kMostTokens || r.k.dims[1] > kMostTokens) return Refusal::arguments("too many tokens");
  }
  if (a.q.dims[2] > 65535 || a.q.dims[0] > 65535) return Refusal::arguments("too many heads or batches");
  return std::nullopt;
}

// Why cuDNN comes before a kernel of mma.sync: it has newer instructions on some GPUs. Elsewhere both are made of
// the same ones, and shapes were compared with FA2, which is, too: all have at least 128 queries for each
// multiprocessor. With fewer (a language model's next token) a library may divide the keys, which these do not.
inline std::optional<Refusal> why_library_first(const AttentionArgs& a, const Stream& stream) {
  const cuda::GpuInfo& gpu = stream.gpu->info();
  if (gpu.major == 9 || gpu.major == 10) return Refusal::slower("cuDNN has this GPU's own instructions");
  if (gpu.capability() < 80) return Refusal::slower("nothing was compared with cuDNN before 8.0");
  if (a.q.dims[0] * a.q.dims[1] * a.q.dims[2] < int64_t{128} * gpu.multiprocessors)
    return Refusal::slower("there are fewer queries than 128 for each multiprocessor");
  return std::nullopt;
}

// The requirements of kernels that support neither masks nor biases.
inline std::optional<Refusal> why_not_masked(const AttentionArgs& a) {
  for (int i = 0; i < a.ranges(); ++i) {
    if (a.range(i).key_bias.defined()) return Refusal::arguments("a key bias");
    if (a.range(i).causal) return Refusal::arguments("a causal mask");
  }
  return std::nullopt;
}

}  // namespace tachy::ops::flash
