// The implementations of activation, for its table and the op runner.
#pragma once

#include "ops/activation/activation.h"
#include "ops/activation/activation_backward.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// The definition, in plain loops and float64.
void activation_ref(const ActivationArgs& args, Stream& stream);
// The definition in float32, adding in order; its error sets the tolerance.
void activation_working(const ActivationArgs& args, Stream& stream);
void activation_cpu(const ActivationArgs& args, Stream& stream);  // Highway
std::span<const Impl<ActivationArgs>> activation_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void activation_backward_ref(const ActivationBackwardArgs& args, Stream& stream);
void activation_backward_cuda(const ActivationBackwardArgs& args, Stream& stream);
void activation_backward_working(const ActivationBackwardArgs& args, Stream& stream);
std::span<const Impl<ActivationBackwardArgs>> activation_backward_table();

}  // namespace tachy::ops
