// Cases of group_norm. The bytes are those of two reads and one write, because the
// statistics need all of x first.
#pragma once

#include "ops/group_norm/group_norm_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

struct GroupNormCase {
  int64_t n, p, c;
  int groups;
  Activation act = Activation::none;
  bool affine = true;
  float offset = 0;    // mean of x, to provoke cancellation
  bool first = false;  // channels first
};

inline void add_group_norm_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t n, int64_t p, int64_t c, int groups, Activation act) {
    cases.push_back({"group_norm_backward",
                     fmt::format("{}x{}x{}-groups{}-act{}", n, p, c, groups, static_cast<int>(act)), kind,
                     12.0 * n * p * c, 40.0 * n * p * c, [=](CaseMemory& memory) {
                       GroupNormBackwardArgs args{.x = memory.normal({n, p, c}), .groups = groups};
                       args.weight = memory.param({c}), args.bias = memory.param({c}), args.act = act;
                       args.dy = memory.normal({n, p, c});
                       args.dx = memory.output({n, p, c}), args.dweight = memory.output(DType::f32, {c}),
                       args.dbias = memory.output(DType::f32, {c});
                       return bind_op("group_norm_backward", group_norm_backward, group_norm_backward_table(),
                                      group_norm_backward_working, args, {args.dx, args.dweight, args.dbias});
                     }});
  };
  add(CaseKind::tiny, 1, 3, 8, 2, Activation::silu);
  add(CaseKind::odd, 2, 37, 77, 7, Activation::mish);
  add(CaseKind::odd, 3, 101, 6, 6, Activation::none);
  add(CaseKind::odd, 2, 301, 77, 7, Activation::mish);  // the smaller ones are computed in float64 on a GPU
  add(CaseKind::tiny, 2, 333, 96, 32, Activation::silu);
  add(CaseKind::tiny, 1, 100, 512, 32, Activation::none);
  add(CaseKind::video, 2, 256 * 256, 256, 32, Activation::silu);
}

inline std::vector<OpCase> group_norm_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, GroupNormCase s) {
    const auto name =
        fmt::format("{}x{}x{}-groups{}-act{}{}{}{}", s.n, s.p, s.c, s.groups, static_cast<int>(s.act),
                    s.affine ? "-affine" : "", s.offset != 0 ? "-offset" : "", s.first ? "-first" : "");
    const double values = 1.0 * s.n * s.p * s.c;
    cases.push_back({"group_norm", name, kind, 12 * values, 8 * values, [=](CaseMemory& memory) {
                       const int64_t a = s.first ? s.c : s.p, b = s.first ? s.p : s.c;
                       GroupNormArgs args{.x = memory.normal({s.n, a, b}, 1, s.offset),
                                          .groups = s.groups,
                                          .act = s.act,
                                          .channels_first = s.first,
                                          .y = memory.output({s.n, a, b})};
                       if (s.affine) args.weight = memory.param({s.c}), args.bias = memory.param({s.c});
                       return bind_op("group_norm", group_norm, group_norm_table(), group_norm_working, args,
                                      {args.y});
                     }});
  };
  add(CaseKind::tiny, {1, 1, 1, 1});  // the variance is 0
  add(CaseKind::tiny, {2, 3, 8, 2, Activation::silu});
  add(CaseKind::tiny, {1, 4, 6, 6, Activation::mish, false});  // instance norm
  add(CaseKind::odd, {3, 37, 77, 7, Activation::mish});
  add(CaseKind::odd, {2, 501, 130, 13, Activation::silu});  // several tiles, the last one short
  add(CaseKind::odd, {1, 1000, 66, 1, Activation::none, true, 100});
  add(CaseKind::odd, {1, 7, 20000, 4, Activation::silu});  // a row is more than a tile
  add(CaseKind::tiny, {2, 1000, 256, 32, Activation::silu});
  add(CaseKind::tiny, {2, 333, 96, 32, Activation::mish});
  add(CaseKind::tiny, {1, 50, 4096, 32, Activation::none, true, 100});
  add(CaseKind::tiny, {2, 700, 128, 8, Activation::none, true, 100});
  add(CaseKind::odd, {2, 3, 512, 32, Activation::silu});
  // Here x has more blocks than cuda_resident reads at once. Its ring needs real sizes, which bench/gpu_all
  // also checks.
  add(CaseKind::tiny, {1, 9001, 64, 8, Activation::silu});
  add(CaseKind::tiny, {1, 1, 1, 1, Activation::none, true, 0, true});
  add(CaseKind::odd, {3, 37, 77, 7, Activation::mish, true, 0, true});
  add(CaseKind::odd,
      {2, 5001, 26, 13, Activation::silu, false, 100, true});  // several tiles, the last one short
  add(CaseKind::tiny, {2, 1024, 320, 32, Activation::silu, true, 0, true});
  add(CaseKind::tiny, {1, 40000, 16, 2, Activation::none, true, 100, true});
  add(CaseKind::tiny, {5, 64, 1280, 32, Activation::gelu_erf, true, 0, true});
  add(CaseKind::real, {2, 128 * 128, 320, 32, Activation::silu, true, 0, true});
  add(CaseKind::real, {2, 32 * 32, 1280, 32, Activation::silu, true, 0, true});
  add(CaseKind::real, {1, 512 * 512, 128, 32, Activation::silu, true, 0, true});
  add(CaseKind::real, {2, 256 * 256, 256, 32, Activation::silu});
  add(CaseKind::real, {2, 256 * 256, 256, 32, Activation::mish});
  add(CaseKind::real, {1, 5 * 240 * 416, 96, 32, Activation::silu});
  add(CaseKind::real, {4, 60 * 104, 512, 32, Activation::mish});
  add_group_norm_backward_cases(cases);
  return on_gpu(cases);
}

}  // namespace tachy::ops
