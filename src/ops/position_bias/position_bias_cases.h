// Cases of position_bias.
#pragma once

#include "ops/op_case.h"
#include "ops/position_bias/position_bias_impl.h"

namespace tachy::ops {

inline std::vector<OpCase> position_bias_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t heads, int64_t length, int64_t buckets) {
    cases.push_back({"position_bias", fmt::format("{}x{}", heads, length), kind,
                     4.0 * heads * length * length, 0, [=](CaseMemory& memory) {
                       PositionBiasArgs args{.table = memory.param({buckets, heads})};
                       args.bucket = memory.rows(2 * length - 1, buckets);
                       args.y = memory.output(DType::f32, {heads, length, length});
                       return bind_op<PositionBiasArgs>("position_bias", position_bias, position_bias_table(),
                                                        nullptr, args, {args.y});
                     }});
  };
  add(CaseKind::tiny, 1, 1, 2);
  add(CaseKind::tiny, 2, 5, 4);
  add(CaseKind::odd, 3, 37, 32);
  add(CaseKind::real, 64, 512, 32);
  return on_gpu(cases);
}

}  // namespace tachy::ops
