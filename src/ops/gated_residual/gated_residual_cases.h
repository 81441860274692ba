// Cases of gated_residual.
#pragma once

#include "ops/gated_residual/gated_residual_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline std::vector<OpCase> gated_residual_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t m, int64_t c, int64_t rows, int64_t pad, bool wide = false) {
    const auto name = fmt::format("{}x{}-rows{}{}{}", m, c, rows, pad ? "-strided" : "", wide ? "-wide" : "");
    cases.push_back({"gated_residual", name, kind, 12.0 * m * c, 2.0 * m * c, [=](CaseMemory& memory) {
                       const Tensor x = wide ? memory.param({m, c + pad}) : memory.normal({m, c + pad});
                       GatedResidualArgs args{.x = x.slice(1, 0, c),
                                              .u = memory.normal({m, c + pad}).slice(1, pad, c + pad)};
                       if (rows) args.gate = memory.param({rows, c + pad}).slice(1, 0, c);
                       if (rows > 1) args.row = memory.rows(m, rows);
                       args.y = (wide ? memory.output(DType::f32, {m, c + pad}) : memory.output({m, c + pad}))
                                    .slice(1, pad, c + pad);
                       return bind_op("gated_residual", gated_residual, gated_residual_table(),
                                      gated_residual_working, args, {args.y});
                     }});
  };
  add(CaseKind::tiny, 2, 16, 0, 0);
  add(CaseKind::tiny, 4, 32, 1, 0);
  add(CaseKind::odd, 9, 77, 3, 1);
  add(CaseKind::odd, 33, 1003, 0, 0);
  add(CaseKind::odd, 9, 35, 2, 1, true);
  add(CaseKind::tiny, 37, 1536, 3, 8);
  add(CaseKind::tiny, 11, 5120, 1, 0, true);
  add(CaseKind::video, 32760, 1536, 1, 0);
  add(CaseKind::video, 32760, 5120, 1, 0);
  add(CaseKind::video, 32760, 5120, 1, 0, true);
  add(CaseKind::video, 75600, 5120, 1, 0);
  add(CaseKind::real, 3276, 5120, 1, 0);
  return on_gpu(cases);
}

}  // namespace tachy::ops
