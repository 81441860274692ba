// The implementations of gated_residual, for its table and the op runner.
#pragma once

#include "ops/gated_residual/gated_residual.h"
#include "ops/gated_residual/gated_residual_backward.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// The definition, in plain loops and float64.
void gated_residual_ref(const GatedResidualArgs& args, Stream& stream);
// The definition in float32, adding in order; its error sets the tolerance.
void gated_residual_working(const GatedResidualArgs& args, Stream& stream);
void gated_residual_cpu(const GatedResidualArgs& args, Stream& stream);  // Highway
std::span<const Impl<GatedResidualArgs>> gated_residual_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void gated_residual_backward_ref(const GatedResidualBackwardArgs& args, Stream& stream);
void gated_residual_backward_cuda(const GatedResidualBackwardArgs& args, Stream& stream);
void gated_residual_backward_working(const GatedResidualBackwardArgs& args, Stream& stream);
std::span<const Impl<GatedResidualBackwardArgs>> gated_residual_backward_table();

}  // namespace tachy::ops
