// Products of random shapes, for `op_runner --random N --of products`.
#pragma once

#include "ops/gemm/gemm_cases.h"
#include "ops/random_draw.h"

namespace tachy::ops {

inline OpCase random_gemm_case(RandomDraw& draw) {
  using enum Activation;
  GemmCase c{draw.chance(0.2) ? CaseKind::odd : CaseKind::tiny, 1, 1, 1, {}};
  do c.m = draw.length(1200), c.n = draw.length_by(8, 1200), c.k = draw.length_by(8, 3000);
  while (c.m * c.n * c.k > 4'000'000);
  GemmOptions& o = c.with;
  o.bias = draw.chance(0.6), o.strided = draw.chance(0.2);
  if (draw.chance(0.4)) o.act = draw.any({silu, gelu_tanh, gelu_erf});
  if (draw.chance(0.2))
    o.multiply = true;
  else if (draw.chance(0.4))
    o.residual = true, o.gate = draw.chance(0.5), o.row = o.gate && draw.chance(0.5),
    o.alias = draw.chance(0.5);
  return gemm_op_case(c);
}

}  // namespace tachy::ops
