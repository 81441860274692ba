#include "ops/region_rope/region_rope.h"

#include "ops/op_helpers.h"
#include "ops/region_rope/region_rope_impl.h"

namespace tachy::ops {

std::span<const Impl<RegionRopeArgs>> region_rope_table() {
  static constexpr Impl<RegionRopeArgs> table[] = {gpu_impl<region_rope_cuda>("cuda"),
                                                   {"cpu", nullptr, region_rope_cpu},
                                                   {"ref", nullptr, region_rope_ref}};
  return table;
}

void region_rope(const RegionRopeArgs& a, Stream& stream) {
  const char* op = "region_rope";
  expect_float(op, "shares", a.shares, {-1, -1, -1}, stream);
  const int64_t tokens = a.shares.dim(0);
  require(a.shares.dim(1) >= 1 && a.shares.dim(2) >= RegionRopeArgs::kRegions,
          "{}: expected shares [tokens, heads, at least {}], got {}", op, RegionRopeArgs::kRegions,
          shape_string(a.shares));
  expect_f32(op, "sizes", a.sizes, {RegionRopeArgs::kRegions});
  expect_f32(op, "cos", a.cos, {tokens, -1});
  expect_f32(op, "sin", a.sin, {tokens, a.cos.dim(1)});
  expect_contiguous(op, "cos", a.cos);
  expect_contiguous(op, "sin", a.sin);
  expect_here(op, "sizes", a.sizes, stream);
  expect_here(op, "cos", a.cos, stream);
  expect_here(op, "sin", a.sin, stream);
  pick<RegionRopeArgs>(op, region_rope_table(), a, stream).run(a, stream);  // takes scratch
}

}  // namespace tachy::ops
