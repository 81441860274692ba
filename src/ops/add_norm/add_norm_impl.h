// The implementations of add_norm, for its table and the op runner.
#pragma once

#include "ops/add_norm/add_norm.h"
#include "ops/add_norm/add_norm_backward.h"
#include "ops/impl_table.h"

namespace tachy::ops {

void add_norm_ref(const AddNormArgs& args, Stream& stream);  // the definition, in plain loops and float64
// The definition in float32, adding in order; its error sets the tolerance.
void add_norm_working(const AddNormArgs& args, Stream& stream);
void add_norm_cpu(const AddNormArgs& args, Stream& stream);  // Highway
std::span<const Impl<AddNormArgs>> add_norm_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void add_norm_backward_ref(const AddNormBackwardArgs& args, Stream& stream);
void add_norm_backward_cuda(const AddNormBackwardArgs& args, Stream& stream);
void add_norm_backward_working(const AddNormBackwardArgs& args, Stream& stream);
std::span<const Impl<AddNormBackwardArgs>> add_norm_backward_table();

}  // namespace tachy::ops
