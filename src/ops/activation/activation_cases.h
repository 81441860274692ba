// Cases of activation.
#pragma once

#include "ops/activation/activation_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline void add_activation_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t n, Activation act) {
    cases.push_back(
        {"activation_backward", fmt::format("{}-act{}", n, static_cast<int>(act)), kind, 12.0 * n, 40.0 * n,
         [=](CaseMemory& memory) {
           ActivationBackwardArgs args{
               .x = memory.normal({n}, 3), .dy = memory.normal({n}), .kind = act, .dx = memory.output({n})};
           return bind_op("activation_backward", activation_backward, activation_backward_table(),
                          activation_backward_working, args, {args.dx});
         }});
  };
  for (const Activation act :
       {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::mish}) {
    add(CaseKind::tiny, 16, act);
    add(CaseKind::odd, 9001, act);
    add(CaseKind::tiny, 9216, act);
  }
  add(CaseKind::video, int64_t{32760} * 8960, Activation::gelu_tanh);
}

inline std::vector<OpCase> activation_cases() {
  std::vector<OpCase> cases;
  static constexpr const char* names[] = {"none", "silu", "gelu_tanh", "gelu_erf", "mish"};
  const auto add = [&](CaseKind kind, int64_t n, Activation act, float scale) {
    const auto name = fmt::format("{}-{}-scale{}", n, names[static_cast<int>(act)], scale);
    cases.push_back(
        {"activation", name, kind, 8.0 * n, 20.0 * n, [=](CaseMemory& memory) {
           ActivationArgs args{.x = memory.normal({n}, scale), .kind = act, .y = memory.output({n})};
           return bind_op("activation", activation, activation_table(), activation_working, args, {args.y});
         }});
  };
  for (const Activation act :
       {Activation::none, Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::mish}) {
    add(CaseKind::tiny, 16, act, 1);
    add(CaseKind::odd, 40003, act, 3);
    add(CaseKind::odd, 1001, act, 0.01f);  // small results must keep their accuracy
    if (act != Activation::none) add(CaseKind::real, 16 << 20, act, 2);
  }
  add(CaseKind::video, int64_t{32760} * 8960, Activation::gelu_tanh, 2);   // 1.3B
  add(CaseKind::video, int64_t{32760} * 13824, Activation::gelu_tanh, 2);  // 14B
  add_activation_backward_cases(cases);
  return on_gpu(cases);
}

}  // namespace tachy::ops
