// Cases of linear_attention.
#pragma once

#include "ops/linear_attention/linear_attention_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

inline std::vector<OpCase> linear_attention_cases() {
  std::vector<OpCase> cases;
  struct Shape {
    int64_t b, lq, lk, h, d;
    float scale = 1;
    bool fused = false;  // q, k and v are slices of one [B, L, 3, H, D]
    bool cpu = true;
  };
  const auto add = [&](CaseKind kind, Shape s) {
    const auto name =
        fmt::format("{}x{}x{}x{}x{}{}{}", s.b, s.lq, s.lk, s.h, s.d,
                    s.scale == 1 ? "" : fmt::format("-scale{:g}", s.scale), s.fused ? "-fused" : "");
    const auto values = static_cast<double>(s.b * s.h * s.d), tokens = static_cast<double>(s.lq + s.lk);
    cases.push_back({"linear_attention", name, kind, 4 * 2 * values * tokens,
                     2 * values * tokens * static_cast<double>(s.d), [=](CaseMemory& memory) {
                       LinearAttentionArgs args{.q_scale = s.scale};
                       if (s.fused) {
                         const Tensor qkv = memory.normal({s.b, s.lq, 3, s.h, s.d});
                         args.q = qkv.select(2, 0), args.k = qkv.select(2, 1), args.v = qkv.select(2, 2);
                       } else {
                         args.q = memory.normal({s.b, s.lq, s.h, s.d}, 2);
                         args.k = memory.normal({s.b, s.lk, s.h, s.d}, 2);
                         args.v = memory.normal({s.b, s.lk, s.h, s.d}, 1, 0.25f);
                       }
                       args.out = memory.output({s.b, s.lq, s.h, s.d});
                       return bind_op<LinearAttentionArgs>("linear_attention", linear_attention,
                                                           linear_attention_table(), linear_attention_working,
                                                           args, {args.out});
                     }});
    cases.back().cpu = s.cpu;
  };
  add(CaseKind::tiny, {1, 1, 1, 1, 8});
  add(CaseKind::tiny, {1, 3, 5, 2, 16});
  add(CaseKind::tiny, {2, 100, 150, 2, 128});
  add(CaseKind::tiny, {2, 333, 333, 3, 64, 0.5f, true});
  add(CaseKind::tiny, {1, 700, 1300, 2, 104, 2.0f});
  add(CaseKind::odd, {1, 77, 130, 2, 20});
  add(CaseKind::odd, {2, 65, 90, 1, 150, 0.25f});
  add(CaseKind::real, {1, 4096, 4096, 4, 128, 1, true});
  add(CaseKind::video, {1, 32760, 32760, 12, 128, 1, true});
  return on_gpu(cases);
}

}  // namespace tachy::ops
