// Cases of gated_residual.
#pragma once

#include "ops/gated_residual/gated_residual_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

// wide: the residual stream is f32 on the GPU, too.
inline void add_gated_residual_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t m, int64_t c, int64_t rows, int64_t pad, bool dx = false,
                       bool wide = false) {
    const auto name = fmt::format("{}x{}-rows{}{}{}{}", m, c, rows, pad ? "-strided" : "", dx ? "-dx" : "",
                                  wide ? "-wide" : "");
    const double tensors = (rows ? 3 : 2) + (dx ? 1 : 0);
    cases.push_back(
        {"gated_residual_backward", name, kind, 4 * tensors * m * c, 3.0 * m * c, [=](CaseMemory& memory) {
           const auto columns = [&](const Tensor& t, int64_t from) { return t.slice(1, from, from + c); };
           const CaseMemory::Dims dims = {m, c + pad};
           GatedResidualBackwardArgs args{.dy = columns(wide ? memory.param(dims) : memory.normal(dims), 0)};
           args.du = columns(memory.output(dims), pad);
           std::vector<Tensor> outputs{args.du};
           if (rows) {
             args.u = columns(memory.normal(dims), pad);
             args.gate = columns(memory.param({rows, c + pad}), 0);
             args.dgate = columns(memory.output(DType::f32, {rows, c + pad}), pad);
             outputs.push_back(args.dgate);
           }
           if (rows > 1) args.row = memory.rows(m, rows);
           if (dx) {
             args.dx = columns(wide ? memory.output(DType::f32, dims) : memory.output(dims), 0);
             outputs.push_back(args.dx);
           }
           return bind_op("gated_residual_backward", gated_residual_backward, gated_residual_backward_table(),
                          gated_residual_backward_working, args, outputs);
         }});
  };
  add(CaseKind::tiny, 3, 16, 0, 0, true);
  add(CaseKind::tiny, 4, 32, 1, 0);
  add(CaseKind::odd, 9, 77, 3, 1, true);
  add(CaseKind::odd, 333, 101, 1, 0);
  add(CaseKind::odd, 57, 35, 2, 1, false, true);
  add(CaseKind::odd, 70, 9, 70, 0);  // as many gates as rows
  add(CaseKind::tiny, 367, 1536, 3, 8, true);
  add(CaseKind::tiny, 111, 5120, 1, 0, false, true);
  add(CaseKind::video, 32760, 1536, 1, 0);
  add(CaseKind::video, 32760, 5120, 1, 0);
  add(CaseKind::video, 32760, 5120, 2, 0);
  add(CaseKind::video, 32760, 5120, 1, 0, false, true);
  add(CaseKind::real, 3276, 1536, 1, 0, true);
}

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
  add_gated_residual_backward_cases(cases);
  return on_gpu(cases);
}

}  // namespace tachy::ops
