// The implementations of rmsnorm, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rmsnorm/rmsnorm_backward.h"

namespace tachy::ops {

void rmsnorm_ref(const RmsNormArgs& args, Stream& stream);  // the definition, in plain loops and float64
// The definition in float32, adding in order; its error sets the tolerance.
void rmsnorm_working(const RmsNormArgs& args, Stream& stream);
void rmsnorm_cpu(const RmsNormArgs& args, Stream& stream);  // Highway
std::span<const Impl<RmsNormArgs>> rmsnorm_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void rmsnorm_backward_ref(const RmsNormBackwardArgs& args, Stream& stream);
void rmsnorm_backward_cuda(const RmsNormBackwardArgs& args, Stream& stream);
void rmsnorm_backward_working(const RmsNormBackwardArgs& args, Stream& stream);
std::span<const Impl<RmsNormBackwardArgs>> rmsnorm_backward_table();

}  // namespace tachy::ops
