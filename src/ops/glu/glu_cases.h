// Cases of glu.
#pragma once

#include "ops/glu/glu_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

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
  return cases;
}

}  // namespace tachy::ops
