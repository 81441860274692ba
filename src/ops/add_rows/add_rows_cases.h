// Cases of add_rows.
#pragma once

#include "ops/add_rows/add_rows_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline std::vector<OpCase> add_rows_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t l, int64_t r, int64_t c, int64_t pad) {
    cases.push_back({"add_rows", fmt::format("{}x{}x{}{}", l, r, c, pad ? "-strided" : ""), kind,
                     4.0 * (l * r * c + l * c + r * c), 1.0 * l * r * c, [=](CaseMemory& memory) {
                       AddRowsArgs args{.table = memory.param({l, c + pad}).slice(1, pad, c + pad)};
                       args.rows = memory.param({r, c + pad}).slice(1, 0, c);
                       args.y = memory.output(DType::f32, {l, r, c});
                       return bind_op<AddRowsArgs>("add_rows", add_rows, add_rows_table(), nullptr, args,
                                                   {args.y});
                     }});
  };
  add(CaseKind::tiny, 1, 1, 1, 0);
  add(CaseKind::tiny, 2, 3, 5, 0);
  add(CaseKind::odd, 3, 2, 333, 3);
  add(CaseKind::real, 40, 1, 6 * 5120, 0);
  return on_gpu(cases);
}

}  // namespace tachy::ops
