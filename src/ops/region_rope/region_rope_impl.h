// The implementations of region_rope, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/region_rope/region_rope.h"

namespace tachy::ops {

void region_rope_ref(const RegionRopeArgs& args, Stream& stream);
void region_rope_working(const RegionRopeArgs& args, Stream& stream);
void region_rope_cpu(const RegionRopeArgs& args, Stream& stream);
void region_rope_cuda(const RegionRopeArgs& args, Stream& stream);
std::span<const Impl<RegionRopeArgs>> region_rope_table();

}  // namespace tachy::ops
