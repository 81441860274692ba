// The implementations of glu, for its table and the op runner.
#pragma once

#include "ops/glu/glu.h"
#include "ops/impl_table.h"

namespace tachy::ops {

void glu_ref(const GluArgs& args, Stream& stream);  // the definition: plain loops, float64 inside
void glu_working(const GluArgs& args,
                 Stream& stream);  // the same in float32, sums in order: the tolerance's yardstick
void glu_cpu(const GluArgs& args, Stream& stream);  // Highway
std::span<const Impl<GluArgs>> glu_table();

}  // namespace tachy::ops
