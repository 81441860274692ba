// Cases of match_colors.
#pragma once

#include "ops/match_colors/match_colors_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline std::vector<OpCase> match_colors_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t n, int64_t h, int64_t w, double strength, float scale) {
    const double pixels = 1.0 * n * h * w;
    cases.push_back({"match_colors", fmt::format("{}x{}x{}-strength{}-scale{}", n, h, w, strength, scale),
                     kind, 24 * pixels, 500 * pixels, [=](CaseMemory& memory) {
                       // The picture is twice as colourful as the frames, so that some values are clipped.
                       MatchColorsArgs args{.x = memory.param({n, h, w, 3}, scale, 0.2f),
                                            .picture = {{55, 5, -10}, {30, 24, 20}},
                                            .strength = strength,
                                            .y = memory.output(DType::f32, {n, h, w, 3})};
                       return bind_op("match_colors", match_colors, match_colors_table(),
                                      match_colors_working, args, {args.y});
                     }});
  };
  add(CaseKind::tiny, 2, 3, 5, 1, 0.5f);
  add(CaseKind::tiny, 1, 1, 1, 1, 0.5f);  // one pixel makes a frame without deviation
  add(CaseKind::odd, 3, 33, 37, 0.3, 0.5f);
  add(CaseKind::odd, 1, 41, 101, 1, 2);  // many values beyond [-1, 1]
  add(CaseKind::odd, 2, 17, 61, 0.75, 0.02f);
  add(CaseKind::real, 4, 128, 128, 1, 0.3f);
  add(CaseKind::real, 4, 480, 832, 1, 0.3f);
  add(CaseKind::real, 4, 1024, 1024, 1, 0.3f);
  return cases;
}

}  // namespace tachy::ops
