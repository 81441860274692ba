#include "ops/attention/attention_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<AttentionBackwardArgs>> attention_backward_table() {
  static constexpr Impl<AttentionBackwardArgs> table[] = {
      gpu_impl<attention_backward_one_pass, attention_backward_why_not_one_pass>("flash_one_pass"),
      gpu_impl<attention_backward_sm80, attention_backward_why_not_sm80>("flash_sm80"),
      gpu_impl<attention_backward_plain_cuda>("cuda_plain"),
      {"ref", nullptr, attention_backward_ref}};
  return table;
}

void attention_backward(const AttentionBackwardArgs& a, Stream& stream) {
  const char* op = "attention_backward";
  const AttentionArgs& f = a.forward;
  const auto [dtype, wide] = gradient_dtypes(op, "q", f.q, stream);
  check_attention(op, f, dtype, wide);
  require(!f.accumulate, "{}: expected a forward pass that did not accumulate", op);
  require(f.whole() && f.causal_block == 1 && f.window == 0,
          "{}: expected one range of keys, all of them there, no causal blocks and no window", op);
  require(!f.blocks.defined(), "{}: expected no lists of key blocks", op);
  require(f.lse.defined(), "{}: expected the forward pass's lse, got none", op);
  const int64_t b = f.q.dim(0), lq = f.q.dim(1), h = f.q.dim(2), d = f.q.dim(3), lk = f.k.dim(1);
  expect_real(op, "dout", a.dout, {b, lq, h, d}, dtype);
  expect_real(op, "dq", a.dq, {b, lq, h, d}, dtype);
  expect_real(op, "dk", a.dk, {b, lk, h, d}, dtype);
  expect_real(op, "dv", a.dv, {b, lk, h, d}, dtype);
  pick<AttentionBackwardArgs>(op, attention_backward_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
