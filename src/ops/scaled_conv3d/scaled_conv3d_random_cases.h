// Causal convolutions of random shapes in 8 bits, for `op_runner --random N --of convolutions`.
#pragma once

#include "ops/random_draw.h"
#include "ops/scaled_conv3d/scaled_conv3d_cases.h"

namespace tachy::ops {

inline OpCase random_scaled_conv3d_case(RandomDraw& draw) {
  using enum ScaledConv3dResult;
  ScaledConv3dCase c{draw.chance(0.2) ? CaseKind::odd : CaseKind::tiny, 1, 1, 1, 1, 1};
  do {
    c.frames = draw.one_of(1, 4), c.h = draw.length(60), c.w = draw.length(60);
    c.ci = draw.length_by(16, 200), c.co = draw.length_by(8, 200);
  } while (c.frames * c.h * c.w * c.ci * c.co * 27 > 6'000'000);
  c.history = draw.one_of(0, 2);
  c.result = draw.any({sums, sums, codes, sums_and_codes, normed});
  c.residual = draw.chance(0.5);
  c.alias = c.residual && c.result != codes && draw.chance(0.5);
  c.codes = draw.chance(0.5) ? DType::i8 : DType::f8_e4m3;
  return scaled_conv3d_op_case(c);
}

}  // namespace tachy::ops
