// The implementations of group_norm, for its table and the op runner.
#pragma once

#include "ops/group_norm/group_norm.h"
#include "ops/group_norm/group_norm_backward.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// The definition, in plain loops and float64.
void group_norm_ref(const GroupNormArgs& args, Stream& stream);
// The definition in float32, adding in order; its error sets the tolerance.
void group_norm_working(const GroupNormArgs& args, Stream& stream);
void group_norm_cpu(const GroupNormArgs& args, Stream& stream);         // Highway, channels last
void group_norm_planes_cpu(const GroupNormArgs& args, Stream& stream);  // the same, channels first
std::optional<Refusal> group_norm_why_not_planes_cpu(const GroupNormArgs& args, const Stream& stream);
std::span<const Impl<GroupNormArgs>> group_norm_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void group_norm_backward_ref(const GroupNormBackwardArgs& args, Stream& stream);
void group_norm_backward_cuda(const GroupNormBackwardArgs& args, Stream& stream);
void group_norm_backward_working(const GroupNormBackwardArgs& args, Stream& stream);
std::span<const Impl<GroupNormBackwardArgs>> group_norm_backward_table();

}  // namespace tachy::ops
