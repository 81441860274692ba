// Cases of attention's backward pass.
#pragma once

#include <cmath>
#include <limits>

#include "ops/attention/attention_case.h"

namespace tachy::ops {

// out and lse need not come from a forward pass: the gradients are defined for any values.
inline void add_attention_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, AttentionCase s) {
    double pairs = 1.0 * s.lq * s.lk;
    if (s.causal) {
      pairs = 0;
      for (int64_t i = 0; i < s.lq; ++i) pairs += std::clamp<int64_t>(i + s.offset + 1, 0, s.lk);
    }
    cases.push_back(
        {"attention_backward",
         fmt::format("{}x{}x{}x{}x{}{}{}{}{}", s.b, s.lq, s.lk, s.h, s.d,
                     s.masked_every ? fmt::format("-mask{}", s.masked_every) : "", s.bias ? "-bias" : "",
                     s.fused ? "-fused" : "", s.causal ? fmt::format("-causal{}", s.offset) : ""),
         kind, 16.0 * s.b * s.h * (s.lq + s.lk) * s.d, 10.0 * s.b * s.h * pairs * s.d,
         [=](CaseMemory& memory) {
           AttentionArgs f{.scale = 1.0f / std::sqrt(static_cast<float>(s.d)),
                           .causal = s.causal,
                           .causal_offset = s.offset};
           AttentionBackwardArgs args;
           std::vector<Tensor> outputs;
           if (s.fused) {
             const Tensor qkv = memory.normal({s.b, s.lq, 3, s.h, s.d}),
                          grad = memory.output({s.b, s.lq, 3, s.h, s.d});
             f.q = qkv.select(2, 0), f.k = qkv.select(2, 1), f.v = qkv.select(2, 2);
             args.dq = grad.select(2, 0), args.dk = grad.select(2, 1), args.dv = grad.select(2, 2);
           } else {
             f.q = memory.normal({s.b, s.lq, s.h, s.d}), f.k = memory.normal({s.b, s.lk, s.h, s.d});
             f.v = memory.normal({s.b, s.lk, s.h, s.d});
             args.dq = memory.output({s.b, s.lq, s.h, s.d});
             args.dk = memory.output({s.b, s.lk, s.h, s.d}), args.dv = memory.output({s.b, s.lk, s.h, s.d});
           }
           f.out = memory.normal({s.b, s.lq, s.h, s.d});
           // lse is about log Lk, as for scores with variance 1, so that weights stay below 1.
           f.lse = memory.param({s.b, s.h, s.lq}, 0.1f, 0.5f + std::log(static_cast<float>(s.lk)));
           if (s.bias) f.bias = memory.param({s.h, s.lq, s.lk}, 0.5f);
           if (s.masked_every) {
             f.key_bias = memory.param({s.b, s.lk});
             auto* values = memory.host(f.key_bias).as<float>();
             for (int64_t i = 0; i < s.b * s.lk; i += s.masked_every)
               values[i] = -std::numeric_limits<float>::infinity();
             memory.host(f.lse).as<float>()[s.lq / 2] = -std::numeric_limits<float>::infinity();
           }
           args.forward = f, args.dout = memory.normal({s.b, s.lq, s.h, s.d});
           return bind_op("attention_backward", attention_backward, attention_backward_table(),
                          attention_backward_working, args, {args.dq, args.dk, args.dv});
         }});
    cases.back().gpu = true;
  };
  add(CaseKind::tiny, {.b = 1, .lq = 3, .lk = 4, .h = 2, .d = 8});
  add(CaseKind::odd, {.b = 2, .lq = 19, .lk = 33, .h = 3, .d = 20, .bias = true});
  add(CaseKind::odd, {.b = 1, .lq = 40, .lk = 37, .h = 1, .d = 30, .causal = true, .offset = -3});
  add(CaseKind::odd, {.b = 1, .lq = 70, .lk = 131, .h = 1, .d = 136, .masked_every = 3});
  // Ragged lengths with aligned rows, as the kernels for 16-byte rows accept.
  add(CaseKind::tiny, {.b = 2, .lq = 130, .lk = 193, .h = 2, .d = 128});
  add(CaseKind::tiny, {.b = 1, .lq = 77, .lk = 257, .h = 2, .d = 64, .masked_every = 4});
  add(CaseKind::tiny, {.b = 1, .lq = 101, .lk = 101, .h = 2, .d = 40, .fused = true});
  add(CaseKind::tiny, {.b = 1, .lq = 150, .lk = 150, .h = 1, .d = 128, .fused = true, .causal = true});
  add(CaseKind::tiny, {.b = 1, .lq = 150, .lk = 90, .h = 1, .d = 64, .causal = true, .offset = -60});
  add(CaseKind::tiny,
      {.b = 2, .lq = 70, .lk = 230, .h = 1, .d = 96, .masked_every = 7, .causal = true, .offset = 160});
  add(CaseKind::video, {.b = 1, .lq = 16384, .lk = 16384, .h = 12, .d = 128});
  add(CaseKind::video, {.b = 1, .lq = 32760, .lk = 32760, .h = 12, .d = 128});
  add(CaseKind::video, {.b = 1, .lq = 16384, .lk = 16384, .h = 12, .d = 128, .causal = true});
}

}  // namespace tachy::ops
