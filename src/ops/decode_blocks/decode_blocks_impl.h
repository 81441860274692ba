// The implementations of decode_blocks, for its table and the op runner.
#pragma once

#include "ops/decode_blocks/decode_blocks.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// All implementations give the definition's bits.
void decode_blocks_ref(const DecodeBlocksArgs& args, Stream& stream);
void decode_blocks_cuda(const DecodeBlocksArgs& args, Stream& stream);
std::span<const Impl<DecodeBlocksArgs>> decode_blocks_table();

}  // namespace tachy::ops
