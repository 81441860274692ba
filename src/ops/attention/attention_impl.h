// The implementations of attention, for its table and the op runner.
#pragma once

#include "ops/attention/attention.h"
#include "ops/impl_table.h"

namespace tachy::ops {

void attention_ref(const AttentionArgs& args, Stream& stream);  // the definition: plain loops, float64 inside
void attention_working(const AttentionArgs& args,
                       Stream& stream);  // the same in float32, sums in order: the tolerance's yardstick
void attention_cpu(const AttentionArgs& args, Stream& stream);  // Highway
std::span<const Impl<AttentionArgs>> attention_table();

}  // namespace tachy::ops
