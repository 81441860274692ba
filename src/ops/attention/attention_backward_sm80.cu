// Launches flash attention's backward kernels (flash_backward_sm80.cuh) for head dims up to 128, bf16 and
// f16.
#include "cuda/dispatch.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/flash_backward_queries_sm80.cuh"

namespace tachy::ops {
namespace {

bool whole_chunks(const Tensor& t) {
  for (int i = 0; i < 3; ++i)
    if (t.dims[i] > 1 && t.strides[i] % 8 != 0) return false;
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0;
}

flash::BackwardParams params_of(const AttentionBackwardArgs& a) {
  const AttentionArgs& f = a.forward;
  flash::BackwardParams p{f.q.data,    f.k.data,  f.v.data,  f.out.data,
                          a.dout.data, a.dq.data, a.dk.data, a.dv.data};
  p.qs = flash::strides_of(f.q), p.ks = flash::strides_of(f.k), p.vs = flash::strides_of(f.v),
  p.os = flash::strides_of(f.out);
  p.dos = flash::strides_of(a.dout), p.dqs = flash::strides_of(a.dq), p.dks = flash::strides_of(a.dk),
  p.dvs = flash::strides_of(a.dv);
  if (f.key_bias.defined())
    p.key_bias = static_cast<const float*>(f.key_bias.data), p.key_bias_batch = f.key_bias.strides[0];
  p.lse = static_cast<const float*>(f.lse.data), p.lse_batch = f.lse.strides[0],
  p.lse_head = f.lse.strides[1];
  p.lq = static_cast<int>(f.q.dims[1]), p.lk = static_cast<int>(f.k.dims[1]);
  p.batches = static_cast<int>(f.q.dims[0]), p.heads = static_cast<int>(f.q.dims[2]),
  p.d = static_cast<int>(f.q.dims[3]);
  p.rows = (p.lq + flash::kRowsRound - 1) / flash::kRowsRound * flash::kRowsRound;
  p.offset = static_cast<int>(f.causal_offset), p.scale = f.scale, p.causal = f.causal;
  return p;
}

size_t turns_bytes(const flash::BackwardParams& p) {
  return sizeof(int) * (1 + static_cast<size_t>(p.batches) * p.heads * p.rows / 64);
}

dim3 grid_of(const AttentionBackwardArgs& a, int64_t length, int each) {
  return {cuda::blocks_for(length, each), static_cast<unsigned>(a.forward.q.dims[2]),
          static_cast<unsigned>(a.forward.q.dims[0])};
}

template <class T, int kDim, int kPairs, int kStageRows>
void run_keys(const AttentionBackwardArgs& a, const flash::BackwardParams& p, Stream& stream) {
  cuda::launch(
      "attention_backward (keys)", flash::key_gradient_kernel<T, kDim, kPairs, kStageRows>,
      {grid_of(a, p.lk, kPairs * 32), dim3(kPairs * 64), flash::key_shared_bytes<kDim, kPairs, kStageRows>()},
      stream, p);
}

template <class T, int kDim, int kStageKeys>
void run_queries(const AttentionBackwardArgs& a, const flash::BackwardParams& p, Stream& stream) {
  constexpr int kWarps = 4;
  cuda::launch("attention_backward (queries)", flash::query_gradient_kernel<T, kDim, kWarps, kStageKeys, 2>,
               {grid_of(a, p.lq, kWarps * 32), dim3(kWarps * 32),
                flash::query_shared_bytes<kDim, kWarps, kStageKeys>()},
               stream, p);
}

// Computes dq, dk and dv in one pass over the queries.
template <class T, int kDim>
void run_one_pass(const AttentionBackwardArgs& a, const flash::BackwardParams& p, Stream& stream) {
  const char* op = "attention_backward (one pass)";
  const int64_t heads = int64_t{p.heads} * p.batches;
  if (p.rows > 0)
    cuda::launch("attention_backward (delta)", flash::prepare_kernel<T>, {grid_of(a, p.rows, 16), dim3(256)},
                 stream, p);
  cuda::check_cuda(cudaMemsetAsync(p.turns, 0, turns_bytes(p), cuda::stream_of(stream)), op);
  cuda::launch(op, flash::key_gradient_kernel<T, kDim, 4, 64, true>,
               {dim3(static_cast<unsigned>(cuda::blocks_for(p.lk, 128) * heads)), dim3(256),
                flash::key_shared_bytes<kDim, 4, 64, true>()},
               stream, p);
  if (p.rows == 0) return;
  const int begin = p.causal ? std::min(std::max(-p.offset, 0), p.rows) / 64 : 0;
  cuda::launch("attention_backward (dq)", flash::query_finish_kernel<T, kDim>,
               {grid_of(a, p.rows, 64), dim3(256)}, stream, p, begin);
}

template <class T>
void run_typed(const AttentionBackwardArgs& a, const flash::BackwardParams& p, Stream& stream) {
  if (p.rows > 0)
    cuda::launch("attention_backward (delta)", flash::prepare_kernel<T>, {grid_of(a, p.rows, 16), dim3(256)},
                 stream, p);
  if (p.d <= 64) {
    run_keys<T, 64, 4, 64>(a, p, stream);
    run_queries<T, 64, 64>(a, p, stream);
    return;
  }
  // Capabilities 8.6 and 8.9 have 99 KiB of shared memory per block.
  const int capability = stream.gpu->info().capability();
  if (capability == 86 || capability == 89 || capability >= 120)
    run_keys<T, 128, 2, 32>(a, p, stream);
  else
    run_keys<T, 128, 4, 64>(a, p, stream);
  run_queries<T, 128, 32>(a, p, stream);
}

}  // namespace

std::optional<Refusal> attention_backward_why_not_sm80(const AttentionBackwardArgs& a, const Stream& stream) {
  const AttentionArgs& f = a.forward;
  if (f.q.dtype == DType::f32) return Refusal::arguments("it takes bf16 and f16");
  if (stream.gpu->info().capability() < 80) return Refusal::weak_gpu("it needs compute capability 8.0");
  if (f.q.dims[3] > 128) return Refusal::arguments("head dims over 128");
  if (f.q.dims[3] % 8 != 0) return Refusal::arguments("the head dim is no multiple of 8");
  if (f.bias.defined()) return Refusal::arguments("a bias of every query and key");
  for (const Tensor* t : {&f.q, &f.k, &f.v, &f.out, &a.dout, &a.dq, &a.dk, &a.dv})
    if (!whole_chunks(*t)) return Refusal::arguments("rows that do not begin at multiples of 16 bytes");
  if (f.q.dims[1] > (int64_t{1} << 30) || f.k.dims[1] > (int64_t{1} << 30))
    return Refusal::arguments("too many tokens");
  if (f.q.dims[2] > 65535 || f.q.dims[0] > 65535) return Refusal::arguments("too many heads or batches");
  return std::nullopt;
}

std::optional<Refusal> attention_backward_why_not_one_pass(const AttentionBackwardArgs& a,
                                                           const Stream& stream) {
  if (auto reason = attention_backward_why_not_sm80(a, stream)) return reason;
  const int capability = stream.gpu->info().capability();
  if (capability < 90 || capability >= 120)
    return Refusal::machine("it needs 194 KiB of shared memory a block");
  const int64_t blocks = (a.forward.k.dims[1] + 127) / 128 * a.forward.q.dims[2] * a.forward.q.dims[0];
  if (blocks > (int64_t{1} << 30)) return Refusal::arguments("too many keys, heads and batches");
  return std::nullopt;
}

void attention_backward_one_pass(const AttentionBackwardArgs& a, Stream& stream) {
  flash::BackwardParams p = params_of(a);
  const int64_t count = a.forward.q.dims[0] * p.heads * p.rows;
  const ArenaScope scope(*stream.arena);
  const auto floats = [&](int64_t n) {
    return static_cast<float*>(stream.arena->bytes(static_cast<size_t>(n) * sizeof(float)));
  };
  p.lse2 = floats(count), p.delta = floats(count), p.sums = floats(count * (p.d <= 64 ? 64 : 128));
  p.turns = static_cast<int*>(stream.arena->bytes(turns_bytes(p)));
  if (stream.measuring() || a.forward.q.dims[0] * p.heads == 0) return;
  cuda::dispatch_float("attention_backward", a.forward.q.dtype, [&]<class T>() {
    if constexpr (sizeof(T) == 2)
      p.d <= 64 ? run_one_pass<T, 64>(a, p, stream) : run_one_pass<T, 128>(a, p, stream);
  });
}

void attention_backward_sm80(const AttentionBackwardArgs& a, Stream& stream) {
  flash::BackwardParams p = params_of(a);
  const int64_t count = a.forward.q.dims[0] * p.heads * p.rows;
  const ArenaScope scope(*stream.arena);
  p.lse2 = static_cast<float*>(stream.arena->bytes(static_cast<size_t>(count) * sizeof(float)));
  p.delta = static_cast<float*>(stream.arena->bytes(static_cast<size_t>(count) * sizeof(float)));
  if (stream.measuring() || a.forward.q.dims[0] * p.heads == 0) return;
  a.forward.q.dtype == DType::bf16 ? run_typed<__nv_bfloat16>(a, p, stream) : run_typed<__half>(a, p, stream);
}

}  // namespace tachy::ops
