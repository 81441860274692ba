// Cases of merge_softmax.
#pragma once

#include "ops/merge_softmax/merge_softmax_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline std::vector<OpCase> merge_softmax_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t b, int64_t l, int64_t h, int64_t d, float apart) {
    const double values = 1.0 * b * l * h * d;
    cases.push_back(
        {"merge_softmax", fmt::format("{}x{}x{}x{}-apart{}", b, l, h, d, apart), kind, 12 * values,
         4 * values, [=](CaseMemory& memory) {
           MergeSoftmaxArgs args{.x = memory.param({b, l, h, d}), .x_lse = memory.param({b, h, l}, 2, apart)};
           args.y = memory.inout(memory.param({b, l, h, d}));
           args.y_lse = memory.inout(memory.param({b, h, l}, 2));
           return bind_op("merge_softmax", merge_softmax, merge_softmax_table(), merge_softmax_working, args,
                          {args.y, args.y_lse});
         }});
  };
  add(CaseKind::tiny, 1, 1, 1, 1, 0);
  add(CaseKind::tiny, 2, 3, 2, 5, 1);
  add(CaseKind::odd, 2, 33, 3, 20, -3);
  add(CaseKind::odd, 1, 101, 5, 64, 90);  // the other one weighs nothing
  add(CaseKind::real, 1, 4680, 12, 128, 0);
  return cases;
}

}  // namespace tachy::ops
