// The implementations of qk_norm_rope, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"

namespace tachy::ops {

void qk_norm_rope_ref(const QkNormRopeArgs& args,
                      Stream& stream);  // the definition: plain loops, float64 inside
void qk_norm_rope_working(const QkNormRopeArgs& args,
                          Stream& stream);  // the same in float32, sums in order: the tolerance's yardstick
void qk_norm_rope_cpu(const QkNormRopeArgs& args, Stream& stream);  // Highway
std::span<const Impl<QkNormRopeArgs>> qk_norm_rope_table();

}  // namespace tachy::ops
