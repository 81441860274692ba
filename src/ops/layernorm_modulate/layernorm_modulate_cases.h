// Cases of layernorm_modulate.
#pragma once

#include "ops/layernorm_modulate/layernorm_modulate_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline void add_layernorm_modulate_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t m, int64_t c, bool affine, int64_t rows) {
    cases.push_back({"layernorm_modulate_backward",
                     fmt::format("{}x{}{}-rows{}", m, c, affine ? "-affine" : "", rows), kind, 12.0 * m * c,
                     16.0 * m * c, [=](CaseMemory& memory) {
                       LayerNormModulateBackwardArgs args{.x = memory.normal({m, c})};
                       std::vector<Tensor> outputs;
                       if (affine) {
                         args.weight = memory.param({c}), args.bias = memory.param({c});
                         outputs = {args.dweight = memory.output(DType::f32, {c}),
                                    args.dbias = memory.output(DType::f32, {c})};
                       }
                       if (rows) {
                         args.scale = memory.param({rows, c});
                         outputs.push_back(args.dscale = memory.output(DType::f32, {rows, c}));
                         outputs.push_back(args.dshift = memory.output(DType::f32, {rows, c}));
                       }
                       if (rows > 1) args.row = memory.rows(m, rows);
                       args.dy = memory.normal({m, c});
                       outputs.push_back(args.dx = memory.output({m, c}));
                       return bind_op("layernorm_modulate_backward", layernorm_modulate_backward,
                                      layernorm_modulate_backward_table(),
                                      layernorm_modulate_backward_working, args, outputs);
                     }});
  };
  add(CaseKind::tiny, 3, 16, true, 2);
  add(CaseKind::odd, 37, 333, true, 5);
  add(CaseKind::odd, 5, 77, false, 0);
  add(CaseKind::tiny, 67, 1536, false, 1);
  add(CaseKind::tiny, 67, 5120, true, 3);
  add(CaseKind::tiny, 133, 64, true, 0);
  add(CaseKind::video, 32760, 1536, false, 1);
  add(CaseKind::video, 32760, 5120, false, 1);
  add(CaseKind::video, 32760, 1536, false, 2);
}

inline std::vector<OpCase> layernorm_modulate_cases() {
  std::vector<OpCase> cases;
  // own: weight and bias have the activations' dtype; rows: how many rows of scale and shift (0: none);
  // offset: mean of x, to provoke cancellation.
  const auto add = [&](CaseKind kind, int64_t m, int64_t c, bool affine, int64_t rows, int64_t pad,
                       float offset, bool wide = false, bool own = false) {
    const auto name = fmt::format("{}x{}{}{}{}{}{}{}", m, c, affine ? "-affine" : "",
                                  rows ? fmt::format("-rows{}", rows) : "", pad ? "-strided" : "",
                                  offset != 0 ? "-offset" : "", wide ? "-wide" : "", own ? "-own" : "");
    cases.push_back({"layernorm_modulate", name, kind, 8.0 * m * c, 8.0 * m * c, [=](CaseMemory& memory) {
                       const Tensor x = wide ? memory.param({m, c + pad}, 1, offset)
                                             : memory.normal({m, c + pad}, 1, offset);
                       LayerNormModulateArgs args{.x = x.slice(1, 0, c)};
                       if (affine && own) args.weight = memory.normal({c}), args.bias = memory.normal({c});
                       if (affine && !own) args.weight = memory.param({c}), args.bias = memory.param({c});
                       if (rows) {
                         args.scale = memory.param({rows, c + pad}).slice(1, pad, c + pad);
                         args.shift = memory.param({rows, c + pad}).slice(1, pad, c + pad);
                       }
                       if (rows > 1) args.row = memory.rows(m, rows);
                       args.y = memory.output({m, c + pad}).slice(1, pad, c + pad);
                       return bind_op("layernorm_modulate", layernorm_modulate, layernorm_modulate_table(),
                                      layernorm_modulate_working, args, {args.y});
                     }});
  };
  add(CaseKind::tiny, 2, 8, false, 1, 0, 0);
  add(CaseKind::tiny, 3, 64, true, 0, 0, 0);
  add(CaseKind::odd, 5, 77, true, 3, 2, 0);
  add(CaseKind::odd, 19, 1001, false, 4, 0, 100);
  add(CaseKind::odd, 7, 131, false, 0, 5, 0);
  add(CaseKind::odd, 6, 224, true, 2, 8, 0, true);
  add(CaseKind::tiny, 9, 160, true, 3, 8, 0);
  for (const int64_t c : {384, 1536, 2048, 3072, 5120, 6144})
    add(CaseKind::tiny, 7, c, false, 3, 0, 0, c == 1536);
  add(CaseKind::tiny, 3, 5120, true, 0, 0, 100, true);
  for (const int64_t c : {96, 1536, 5120})
    add(CaseKind::tiny, 5, c, true, c == 1536 ? 2 : 0, 0, 0, false, true);
  add(CaseKind::odd, 5, 77, true, 3, 2, 0, false, true);
  add(CaseKind::video, 32760, 1536, false, 1, 0, 0);
  add(CaseKind::video, 32760, 5120, false, 1, 0, 0);
  add(CaseKind::video, 32760, 5120, false, 1, 0, 0, true);
  add(CaseKind::video, 32760, 5120, true, 0, 0, 0);
  add(CaseKind::video, 75600, 5120, false, 1, 0, 0);
  add(CaseKind::real, 3276, 5120, false, 1, 0, 0);
  add_layernorm_modulate_backward_cases(cases);
  return on_gpu(cases);
}

}  // namespace tachy::ops
