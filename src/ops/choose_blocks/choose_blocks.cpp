#include "ops/choose_blocks/choose_blocks_impl.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<ChooseBlocksArgs>> choose_blocks_table() {
  static constexpr Impl<ChooseBlocksArgs> table[] = {
      gpu_impl<choose_blocks_cuda, choose_blocks_why_not_cuda>("cuda"), {"ref", nullptr, choose_blocks_ref}};
  return table;
}

void choose_blocks(const ChooseBlocksArgs& a, Stream& stream) {
  const char* op = "choose_blocks";
  expect_float(op, "q", a.q, {-1, -1, -1, -1}, stream);
  const int64_t b = a.q.dim(0), l = a.q.dim(1), h = a.q.dim(2), d = a.q.dim(3);
  expect_float(op, "k", a.k, {b, l, h, d}, stream);
  expect_same_dtype(op, "k", a.k, a.q);
  require(l >= 1, "{}: expected at least one token, got none", op);
  const int64_t blocks = chosen_blocks(l);
  require(a.keep >= 1 && a.keep <= blocks, "{}: expected to keep 1 to {} blocks, got {}", op, blocks, a.keep);
  expect_real(op, "indices", a.indices, {b, h, blocks, -1}, DType::i32);
  require(a.indices.dim(3) >= a.keep, "{}: expected lists with room for {} blocks, got {}", op, a.keep,
          a.indices.dim(3));
  expect_real(op, "counts", a.counts, {b, h, blocks}, DType::i32);
  expect_contiguous(op, "indices", a.indices), expect_contiguous(op, "counts", a.counts);
  expect_here(op, "indices", a.indices, stream), expect_here(op, "counts", a.counts, stream);
  if (count_pass(op, a.q.dtype, {a.q, a.k, a.indices}, stream)) return;
  pick<ChooseBlocksArgs>(op, choose_blocks_table(), a, stream).run(a, stream);
}

}  // namespace tachy::ops
