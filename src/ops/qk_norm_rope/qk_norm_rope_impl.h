// The implementations of qk_norm_rope, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "ops/qk_norm_rope/qk_norm_rope_backward.h"

namespace tachy::ops {

// Returns the arguments for the second tensor of the pair as a separate call.
inline QkNormRopeArgs second_of(QkNormRopeArgs a) {
  a.x = a.x2, a.weight = a.weight2, a.y = a.y2;
  a.x2 = a.weight2 = a.y2 = Tensor(), a.scale = 1;
  return a;
}

// How many norms a token has, each over channels that lie together.
inline int64_t norms_of(const QkNormRopeArgs& a) { return a.norm_heads ? a.heads : 1; }

// The definition, in plain loops and float64.
void qk_norm_rope_ref(const QkNormRopeArgs& args, Stream& stream);
// The definition in float32, adding in order; its error sets the tolerance.
void qk_norm_rope_working(const QkNormRopeArgs& args, Stream& stream);
void qk_norm_rope_cpu(const QkNormRopeArgs& args, Stream& stream);  // Highway
void qk_norm_rope_cuda(const QkNormRopeArgs& args, Stream& stream);
std::span<const Impl<QkNormRopeArgs>> qk_norm_rope_table();

// The backward pass on the CPU is its definition, which also takes float64 tensors.
void qk_norm_rope_backward_ref(const QkNormRopeBackwardArgs& args, Stream& stream);
void qk_norm_rope_backward_cuda(const QkNormRopeBackwardArgs& args, Stream& stream);
void qk_norm_rope_backward_working(const QkNormRopeBackwardArgs& args, Stream& stream);
std::span<const Impl<QkNormRopeBackwardArgs>> qk_norm_rope_backward_table();

}  // namespace tachy::ops
