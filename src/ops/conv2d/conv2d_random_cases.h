// Convolutions of pictures of random shapes, for `op_runner --random N --of convolutions`.
#pragma once

#include "ops/conv2d/conv2d_cases.h"
#include "ops/random_draw.h"

namespace tachy::ops {

inline OpCase random_conv2d_case(RandomDraw& draw) {
  Conv2dCase c{draw.chance(0.2) ? CaseKind::odd : CaseKind::tiny, 1, 1, 1, 1, 1, {}};
  Conv2dOptions& o = c.with;
  o.kernel = draw.any({int64_t{1}, int64_t{3}, int64_t{3}, int64_t{5}});
  if (o.kernel == 3 && draw.chance(0.3)) o.stride = 2;
  do {
    c.frames = draw.one_of(1, 3), c.h = draw.length(80) + 1, c.w = draw.length(80) + 1;
    c.ci = draw.length_by(8, 200), c.co = draw.length_by(8, 200);
  } while (c.frames * c.h * c.w * c.ci * c.co * o.kernel * o.kernel > 6'000'000);
  o.bias = draw.chance(0.8), o.residual = draw.chance(0.4), o.alias = o.residual && draw.chance(0.5);
  return conv2d_op_case(c);
}

}  // namespace tachy::ops
