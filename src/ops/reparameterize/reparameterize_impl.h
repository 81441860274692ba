// The implementations of reparameterize, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/reparameterize/reparameterize.h"
#include "ops/reparameterize/reparameterize_backward.h"

namespace tachy::ops {

// The definition, in plain loops and float64.
void reparameterize_ref(const ReparameterizeArgs& args, Stream& stream);
// The definition in float32; its error sets the tolerance.
void reparameterize_working(const ReparameterizeArgs& args, Stream& stream);
void reparameterize_cpu(const ReparameterizeArgs& args, Stream& stream);  // Highway
std::span<const Impl<ReparameterizeArgs>> reparameterize_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void reparameterize_backward_ref(const ReparameterizeBackwardArgs& args, Stream& stream);
void reparameterize_backward_cuda(const ReparameterizeBackwardArgs& args, Stream& stream);
void reparameterize_backward_working(const ReparameterizeBackwardArgs& args, Stream& stream);
std::span<const Impl<ReparameterizeBackwardArgs>> reparameterize_backward_table();

}  // namespace tachy::ops
