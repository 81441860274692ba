// Linear layers of random shapes, for `op_runner --random N --of products`: in 8 bits, and some in 16 bits.
#pragma once

#include "ops/random_draw.h"
#include "ops/scaled_gemm/scaled_gemm_cases.h"

namespace tachy::ops {

inline OpCase random_scaled_gemm_case(RandomDraw& draw) {
  using enum Activation;
  ScaledGemmCase c{draw.chance(0.2) ? CaseKind::odd : CaseKind::tiny, 1, 1, 1};
  do c.m = draw.length(1200), c.n = draw.length_by(8, 1200), c.k = draw.length_by(16, 3000);
  while (c.m * c.n * c.k > 4'000'000);
  c.bias = draw.chance(0.6), c.addend = draw.chance(0.4), c.strided = draw.chance(0.2);
  c.alias = c.addend && draw.chance(0.5);
  if (draw.chance(0.4)) c.act = draw.any({silu, gelu_tanh, gelu_erf, mish});
  return scaled_gemm_op_case(c, draw.chance(0.5) ? DType::i8 : DType::f8_e4m3);
}

}  // namespace tachy::ops
