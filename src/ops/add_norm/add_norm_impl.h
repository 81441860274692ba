// The implementations of add_norm, for its table and the op runner.
#pragma once

#include "ops/add_norm/add_norm.h"
#include "ops/impl_table.h"

namespace tachy::ops {

void add_norm_ref(const AddNormArgs& args, Stream& stream);  // the definition: plain loops, float64 inside
void add_norm_working(const AddNormArgs& args,
                      Stream& stream);  // the same in float32, sums in order: the tolerance's yardstick
void add_norm_cpu(const AddNormArgs& args, Stream& stream);  // Highway
std::span<const Impl<AddNormArgs>> add_norm_table();

}  // namespace tachy::ops
