// Cases of random shapes, of attention, of linear layers or of convolutions.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "ops/attention/attention_random_cases.h"
#include "ops/conv2d/conv2d_random_cases.h"
#include "ops/conv3d/conv3d_random_cases.h"
#include "ops/gemm/gemm_random_cases.h"
#include "ops/scaled_conv3d/scaled_conv3d_random_cases.h"
#include "ops/scaled_gemm/scaled_gemm_random_cases.h"

namespace tachy {

struct RandomCases {
  int64_t count = 0;
  std::string of = "attention";
};

// The same seed gives the same cases. Of four products three are in 8 bits, and of five convolutions two.
inline std::vector<ops::OpCase> random_cases(const RandomCases& random, uint64_t seed) {
  if (random.of == "attention") return ops::random_attention_cases(seed, random.count);
  require(random.of == "products" || random.of == "convolutions",
          "--of: expected attention, products or convolutions, got '{}'", random.of);
  ops::RandomDraw draw(seed);
  std::vector<ops::OpCase> cases;
  for (int64_t i = 0; i < random.count; ++i)
    if (random.of == "products")
      cases.push_back(i % 4 == 0 ? ops::random_gemm_case(draw) : ops::random_scaled_gemm_case(draw));
    else
      cases.push_back(i % 5 < 2   ? ops::random_conv3d_case(draw)
                      : i % 5 < 4 ? ops::random_scaled_conv3d_case(draw)
                                  : ops::random_conv2d_case(draw));
  return cases;
}

}  // namespace tachy
