// The implementations of glu, for its table and the op runner.
#pragma once

#include "ops/glu/glu.h"
#include "ops/glu/glu_backward.h"
#include "ops/impl_table.h"

namespace tachy::ops {

void glu_ref(const GluArgs& args, Stream& stream);  // the definition, in plain loops and float64
// The definition in float32, adding in order; its error sets the tolerance.
void glu_working(const GluArgs& args, Stream& stream);
void glu_cpu(const GluArgs& args, Stream& stream);  // Highway
std::span<const Impl<GluArgs>> glu_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void glu_backward_ref(const GluBackwardArgs& args, Stream& stream);
void glu_backward_cuda(const GluBackwardArgs& args, Stream& stream);
void glu_backward_working(const GluBackwardArgs& args, Stream& stream);
std::span<const Impl<GluBackwardArgs>> glu_backward_table();

}  // namespace tachy::ops
