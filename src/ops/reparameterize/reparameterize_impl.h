// The implementations of reparameterize, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/reparameterize/reparameterize.h"

namespace tachy::ops {

void reparameterize_ref(const ReparameterizeArgs& args,
                        Stream& stream);  // the definition: plain loops, float64 inside
void reparameterize_working(const ReparameterizeArgs& args,
                            Stream& stream);  // the same in float32: the tolerance's yardstick
void reparameterize_cpu(const ReparameterizeArgs& args, Stream& stream);  // Highway
std::span<const Impl<ReparameterizeArgs>> reparameterize_table();

}  // namespace tachy::ops
