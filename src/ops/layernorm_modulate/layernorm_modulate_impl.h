// The implementations of layernorm_modulate, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/layernorm_modulate/layernorm_modulate.h"
#include "ops/layernorm_modulate/layernorm_modulate_backward.h"

namespace tachy::ops {

// The definition, in plain loops and float64.
void layernorm_modulate_ref(const LayerNormModulateArgs& args, Stream& stream);
// The definition in float32, adding in order; its error sets the tolerance.
void layernorm_modulate_working(const LayerNormModulateArgs& args, Stream& stream);
void layernorm_modulate_cpu(const LayerNormModulateArgs& args, Stream& stream);  // Highway
std::span<const Impl<LayerNormModulateArgs>> layernorm_modulate_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void layernorm_modulate_backward_ref(const LayerNormModulateBackwardArgs& args, Stream& stream);
void layernorm_modulate_backward_cuda(const LayerNormModulateBackwardArgs& args, Stream& stream);
void layernorm_modulate_backward_working(const LayerNormModulateBackwardArgs& args, Stream& stream);
std::span<const Impl<LayerNormModulateBackwardArgs>> layernorm_modulate_backward_table();

}  // namespace tachy::ops
