#include "ops/attention/attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<AttentionArgs>> attention_table() {
  static constexpr Impl<AttentionArgs> table[] = {
      gpu_impl<attention_sm90, attention_why_not_sm90_many_keys>("flash_sm90"),
      gpu_impl<attention_cudnn, attention_why_not_cudnn>("cudnn"),
      gpu_impl<attention_few_keys, attention_why_not_few_keys>("few_keys"),
      gpu_impl<attention_sm90, attention_why_not_sm90>("flash_sm90_any"),
      gpu_impl<attention_sm80, attention_why_not_sm80>("flash_sm80"),
      gpu_impl<attention_softmax_gemm, attention_why_not_softmax_gemm>("softmax_gemm"),
      gpu_impl<attention_plain_cuda>("cuda_plain"),
      {"bf16", attention_why_not_bf16, attention_bf16},
      {"cpu", attention_why_not_cpu, attention_cpu},
      {"ref", nullptr, attention_ref}};
  return table;
}

void check_attention(const char* op, const AttentionArgs& a, DType dtype, DType wide) {
  expect_real(op, "q", a.q, {-1, -1, -1, -1}, dtype);
  const int64_t b = a.q.dim(0), lq = a.q.dim(1), h = a.q.dim(2), d = a.q.dim(3);
  expect_real(op, "k", a.k, {b, -1, h, d}, dtype);
  const int64_t lk = a.k.dim(1);
  require(lk >= 1, "{}: expected at least one key, got none", op);
  expect_real(op, "v", a.v, {b, lk, h, d}, dtype);
  if (a.key_bias.defined()) expect_real(op, "key_bias", a.key_bias, {b, lk}, wide);
  if (a.bias.defined()) expect_real(op, "bias", a.bias, {h, lq, lk}, wide);
  expect_real(op, "out", a.out, {b, lq, h, d}, dtype);
  if (a.lse.defined()) expect_real(op, "lse", a.lse, {b, h, lq}, wide);
  require(a.causal || a.causal_offset == 0, "{}: causal_offset {} needs causal", op, a.causal_offset);
  require(a.causal_offset >= -lq && a.causal_offset <= lk, "{}: expected causal_offset in [{}, {}], got {}",
          op, -lq, lk, a.causal_offset);
}

void attention(const AttentionArgs& a, Stream& stream) {
  const char* op = "attention";
  require(a.q.defined(), "{}: expected q, got no tensor", op);
  expect_float_dtype(op, "q", a.q, stream);
  check_attention(op, a, a.q.dtype, DType::f32);
  double pairs = static_cast<double>(a.q.dim(1)) * static_cast<double>(a.k.dim(1));
  if (a.causal) {
    pairs = 0;
    for (int64_t i = 0; i < a.q.dim(1); ++i) pairs += static_cast<double>(visible_keys(a, i));
  }
  stream.count_flops(4.0 * static_cast<double>(a.q.dim(0) * a.q.dim(2) * a.q.dim(3)) * pairs);
  pick<AttentionArgs>(op, attention_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
