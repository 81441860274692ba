#include <algorithm>

#include "ops/count_work.h"
#include "ops/decode_blocks/decode_blocks_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

// The ids of the types that decode_blocks_sm80.cu supports.
constexpr uint32_t kOnGpu[] = {2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 39};

std::optional<Refusal> why_not_cuda(const DecodeBlocksArgs& a, const Stream&) {
  if (!decodes_on_gpu(*a.type)) return Refusal::arguments("a type without a kernel");
  return std::nullopt;
}

}  // namespace

bool decodes_on_gpu(const GgufType& type) {
  return std::find(std::begin(kOnGpu), std::end(kOnGpu), type.id) != std::end(kOnGpu);
}

std::span<const Impl<DecodeBlocksArgs>> decode_blocks_table() {
  static constexpr Impl<DecodeBlocksArgs> table[] = {gpu_impl<decode_blocks_cuda, why_not_cuda>("cuda"),
                                                     {"ref", nullptr, decode_blocks_ref}};
  return table;
}

void decode_blocks(const DecodeBlocksArgs& a, Stream& stream) {
  require(a.type && a.type->decode, "decode_blocks: expected a type of blocks whose values are known");
  expect_float("decode_blocks", "y", a.y, {-1, -1}, stream);
  expect_contiguous("decode_blocks", "y", a.y);
  require(a.y.dim(1) % a.type->block_values == 0,
          "decode_blocks: expected rows of whole blocks of {} values, got {}", a.type->block_values,
          a.y.dim(1));
  expect_shape("decode_blocks", "blocks", a.blocks,
               {a.y.dim(0), a.y.dim(1) / a.type->block_values * a.type->block_bytes});
  expect_dtype("decode_blocks", "blocks", a.blocks, DType::u8);
  expect_contiguous("decode_blocks", "blocks", a.blocks);
  if (count_pass("decode_blocks", a.y.dtype, {a.blocks, a.y}, stream)) return;
  const auto& impl = pick<DecodeBlocksArgs>("decode_blocks", decode_blocks_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
