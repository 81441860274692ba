// Cases of glu.
#pragma once

#include "ops/glu/glu_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline void add_glu_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t m, int64_t c, Activation act) {
    cases.push_back({"glu_backward", fmt::format("{}x{}-act{}", m, c, static_cast<int>(act)), kind,
                     20.0 * m * c, 60.0 * m * c, [=](CaseMemory& memory) {
                       const Tensor both = memory.normal({m, 2 * c}), grad = memory.output({m, 2 * c});
                       GluBackwardArgs args{.a = both.slice(1, 0, c),
                                            .b = both.slice(1, c, 2 * c),
                                            .dy = memory.normal({m, c}),
                                            .kind = act};
                       args.da = grad.slice(1, 0, c), args.db = grad.slice(1, c, 2 * c);
                       return bind_op("glu_backward", glu_backward, glu_backward_table(),
                                      glu_backward_working, args, {args.da, args.db});
                     }});
  };
  add(CaseKind::tiny, 2, 16, Activation::silu);
  add(CaseKind::odd, 37, 333, Activation::gelu_tanh);
  add(CaseKind::tiny, 37, 320, Activation::gelu_tanh);
  add(CaseKind::video, 32760, 8960, Activation::silu);
}

inline std::vector<OpCase> glu_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t m, int64_t c, Activation act, bool halves) {
    const auto name = fmt::format("{}x{}-act{}{}", m, c, static_cast<int>(act), halves ? "-halves" : "");
    cases.push_back({"glu", name, kind, 12.0 * m * c, 20.0 * m * c, [=](CaseMemory& memory) {
                       GluArgs args{.kind = act};
                       if (halves) {
                         const Tensor both = memory.normal({m, 2 * c});
                         args.a = both.slice(1, 0, c), args.b = both.slice(1, c, 2 * c);
                       } else {
                         args.a = memory.normal({m, c}), args.b = memory.normal({m, c});
                       }
                       args.y = memory.output({m, c});
                       return bind_op("glu", glu, glu_table(), glu_working, args, {args.y});
                     }});
  };
  add(CaseKind::tiny, 2, 16, Activation::gelu_tanh, false);
  add(CaseKind::odd, 5, 77, Activation::silu, true);
  add(CaseKind::odd, 9, 1001, Activation::gelu_tanh, true);
  add(CaseKind::odd, 3, 33, Activation::gelu_erf, false);
  add(CaseKind::real, 512, 10240, Activation::gelu_tanh, false);  // umT5-XXL, a prompt
  add(CaseKind::real, 512, 11008, Activation::silu, true);        // SwiGLU of a 7B language model
  add(CaseKind::tiny, 7, 1536, Activation::silu, true);
  add(CaseKind::tiny, 64, 32, Activation::gelu_tanh, false);
  add(CaseKind::video, 32760, 8960, Activation::silu, true);
  add(CaseKind::video, 32760, 8960, Activation::gelu_tanh, false);
  add(CaseKind::video, 75600, 8960, Activation::silu, true);
  add_glu_backward_cases(cases);
  return on_gpu(cases);
}

}  // namespace tachy::ops
