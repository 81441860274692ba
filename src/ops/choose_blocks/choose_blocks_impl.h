// The implementations of choose_blocks, for its table and the op runner.
#pragma once

#include "ops/choose_blocks/choose_blocks.h"
#include "ops/impl_table.h"

namespace tachy::ops {

void choose_blocks_ref(const ChooseBlocksArgs& args, Stream& stream);
std::optional<Refusal> choose_blocks_why_not_cuda(const ChooseBlocksArgs& args, const Stream& stream);
void choose_blocks_cuda(const ChooseBlocksArgs& args, Stream& stream);
std::span<const Impl<ChooseBlocksArgs>> choose_blocks_table();

}  // namespace tachy::ops
