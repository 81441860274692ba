// The implementations of rope, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/rope/rope.h"
#include "ops/rope/rope_backward.h"

namespace tachy::ops {

void rope_ref(const RopeArgs& args, Stream& stream);  // the definition, in plain loops and float64
// The definition in float32, adding in order; its error sets the tolerance.
void rope_working(const RopeArgs& args, Stream& stream);
void rope_cpu(const RopeArgs& args, Stream& stream);  // Highway
std::span<const Impl<RopeArgs>> rope_impls();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void rope_backward_ref(const RopeBackwardArgs& args, Stream& stream);
void rope_backward_cuda(const RopeBackwardArgs& args, Stream& stream);
void rope_backward_working(const RopeBackwardArgs& args, Stream& stream);
std::span<const Impl<RopeBackwardArgs>> rope_backward_table();

}  // namespace tachy::ops
