// Cases of rope.
#pragma once

#include "ops/op_case.h"
#include "ops/rope/rope_impl.h"

namespace tachy::ops {

inline void add_rope_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t b, int64_t l, int64_t h, int64_t d, RopePairs pairs) {
    cases.push_back({"rope_backward",
                     fmt::format("{}x{}x{}x{}{}", b, l, h, d, pairs == RopePairs::halves ? "-halves" : ""),
                     kind, 8.0 * b * l * h * d, 3.0 * b * l * h * d, [=](CaseMemory& memory) {
                       RopeBackwardArgs args{.dy = memory.normal({b, l, h, d}),
                                             .cos = memory.param({l, d / 2}),
                                             .sin = memory.param({l, d / 2}),
                                             .pairs = pairs};
                       rope_table_1d(l, d, 10000.0, memory.host(args.cos), memory.host(args.sin));
                       args.dx = memory.output({b, l, h, d});
                       return bind_op("rope_backward", rope_backward, rope_backward_table(),
                                      rope_backward_working, args, {args.dx});
                     }});
  };
  add(CaseKind::tiny, 1, 3, 2, 8, RopePairs::adjacent);
  add(CaseKind::odd, 2, 37, 3, 70, RopePairs::adjacent);
  add(CaseKind::odd, 2, 37, 3, 70, RopePairs::halves);
  add(CaseKind::tiny, 2, 37, 3, 128, RopePairs::adjacent);
  add(CaseKind::tiny, 2, 37, 3, 64, RopePairs::halves);
  add(CaseKind::video, 1, 32760, 12, 128, RopePairs::adjacent);
}

inline std::vector<OpCase> rope_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t b, int64_t frames, int64_t rows, int64_t columns, int64_t h,
                       int64_t d, int64_t pad, RopePairs pairs = RopePairs::adjacent) {
    const int64_t l = frames * rows * columns;
    const auto name = fmt::format("{}x{}x{}x{}{}{}", b, l, h, d, pad ? "-strided" : "",
                                  pairs == RopePairs::halves ? "-halves" : "");
    cases.push_back({"rope", name, kind, 8.0 * b * l * h * d, 3.0 * b * l * h * d, [=](CaseMemory& memory) {
                       RopeArgs args{.x = memory.normal({b, l, h, d + pad}).slice(3, 0, d),
                                     .cos = memory.param({l, d / 2}),
                                     .sin = memory.param({l, d / 2}),
                                     .pairs = pairs};
                       if (pairs == RopePairs::halves)
                         rope_table_1d(l, d, 500000.0, memory.host(args.cos), memory.host(args.sin));
                       else
                         rope_table_3d(frames, rows, columns, d, 10000.0, memory.host(args.cos),
                                       memory.host(args.sin), {.first = 5, .reverse = b == 2});
                       args.y = memory.output({b, l, h, d + pad}).slice(3, pad, d + pad);
                       return bind_op("rope", rope, rope_impls(), rope_working, args, {args.y});
                     }});
  };
  add(CaseKind::tiny, 1, 2, 1, 2, 1, 12, 0);
  add(CaseKind::odd, 2, 2, 3, 3, 3, 10, 2);
  add(CaseKind::odd, 1, 3, 5, 3, 5, 70, 0);
  add(CaseKind::tiny, 2, 3, 1, 1, 2, 8, 0, RopePairs::halves);
  add(CaseKind::odd, 1, 7, 5, 1, 3, 74, 3, RopePairs::halves);
  add(CaseKind::tiny, 2, 2, 3, 3, 3, 128, 0);
  add(CaseKind::tiny, 1, 9, 1, 1, 3, 128, 8, RopePairs::halves);
  add(CaseKind::real, 1, 21, 30, 52, 40, 128, 0);
  add(CaseKind::real, 1, 3, 30, 52, 12, 128, 0);
  add(CaseKind::real, 1, 4096, 1, 1, 32, 128, 0, RopePairs::halves);  // a language model's queries
  add_rope_backward_cases(cases);
  return on_gpu(cases);
}

}  // namespace tachy::ops
