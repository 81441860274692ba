// The implementations of position_bias, for its table and the op runner. They copy values, so all give the
// definition's bits.
#pragma once

#include "ops/impl_table.h"
#include "ops/position_bias/position_bias.h"

namespace tachy::ops {

void position_bias_ref(const PositionBiasArgs& args, Stream& stream);
void position_bias_cuda(const PositionBiasArgs& args, Stream& stream);
std::span<const Impl<PositionBiasArgs>> position_bias_table();

}  // namespace tachy::ops
