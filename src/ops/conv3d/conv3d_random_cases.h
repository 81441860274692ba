// Causal convolutions of random shapes, for `op_runner --random N --of convolutions`.
#pragma once

#include "ops/conv3d/conv3d_cases.h"
#include "ops/random_draw.h"

namespace tachy::ops {

inline OpCase random_conv3d_case(RandomDraw& draw) {
  Conv3dCase c{draw.chance(0.2) ? CaseKind::odd : CaseKind::tiny, 1, 1, 1, 1, 1};
  Conv3dOptions& o = c.with;
  if (draw.chance(0.3)) o.kernel = 1;
  do {
    c.frames = draw.one_of(1, 4), c.h = draw.length(60), c.w = draw.length(60);
    c.ci = draw.length_by(8, 200), c.co = draw.length_by(8, 200);
  } while (c.frames * c.h * c.w * c.ci * c.co * o.kernel * o.kernel * 3 > 6'000'000);
  c.history = draw.one_of(0, 2);
  if (o.kernel == 1 && draw.chance(0.3) && c.frames > 1)
    o.time_stride = 2, o.front = 1, c.history = draw.one_of(0, 1);
  if (draw.chance(0.4))
    o.residual = true, o.alias = draw.chance(0.5);
  else
    o.apart = draw.chance(0.2);
  if (!o.apart && draw.chance(0.3)) o.norm = static_cast<int>(draw.one_of(1, 2));
  return conv3d_op_case(c);
}

}  // namespace tachy::ops
