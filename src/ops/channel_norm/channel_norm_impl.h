// The implementations of channel_norm, for its table and the op runner.
#pragma once

#include "ops/channel_norm/channel_norm.h"
#include "ops/channel_norm/channel_norm_backward.h"
#include "ops/codes.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// The definition, in plain loops and float64.
void channel_norm_ref(const ChannelNormArgs& args, Stream& stream);
// The definition in float32, adding in order; its error sets the tolerance.
void channel_norm_working(const ChannelNormArgs& args, Stream& stream);
void channel_norm_cpu(const ChannelNormArgs& args, Stream& stream);  // Highway
std::span<const Impl<ChannelNormArgs>> channel_norm_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void channel_norm_backward_ref(const ChannelNormBackwardArgs& args, Stream& stream);
void channel_norm_backward_cuda(const ChannelNormBackwardArgs& args, Stream& stream);
void channel_norm_backward_working(const ChannelNormBackwardArgs& args, Stream& stream);
std::span<const Impl<ChannelNormBackwardArgs>> channel_norm_backward_table();

}  // namespace tachy::ops
