// Makes a case of attention, and cases of whole videos.
#pragma once

#include "ops/attention/attention_list_cases.h"

namespace tachy::ops {

inline OpCase attention_op_case(CaseKind kind, const AttentionCase& s) {
  double pairs = 1.0 * s.lq * s.lk;
  if (s.causal) {
    pairs = 0;
    for (int64_t i = 0; i < s.lq; ++i) pairs += std::clamp<int64_t>(i + s.offset + 1, 0, s.lk);
  }
  for (const RangeCase& r : s.more) pairs += 1.0 * s.lq * r.lk;
  if (s.listed > 0) pairs = listed_pairs(s) / static_cast<double>(s.b * s.h);
  const double bytes = 4.0 * s.b * s.h * s.d * (2 * s.lq + 2 * s.lk), flops = 4.0 * s.b * s.h * pairs * s.d;
  const auto make = [=](CaseMemory& memory) {
    const AttentionArgs args = attention_case_args(memory, s);
    const auto bind = [&](const AttentionArgs& a) {
      return bind_op("attention", attention, attention_table(), attention_working, a,
                     s.lse ? std::vector{a.out, a.lse} : std::vector{a.out}, s.compute);
    };
    if (!s.sampled) return bind(args);
    std::vector<BoundOp> parts;
    for (int64_t begin : sampled_rows(s.lq)) {
      AttentionArgs part = args;
      if (s.listed > 0) part.blocks = list_of_rows(s, args.blocks, begin);
      if (s.causal) part.causal_offset += begin;
      part.q = args.q.slice(1, begin, begin + kSampledRows);
      part.out = args.out.slice(1, begin, begin + kSampledRows);
      parts.push_back(bind(part));
    }
    return define_parts(bind(args), std::move(parts));
  };
  return {.op = "attention",
          .name = attention_case_name(s),
          .kind = kind,
          .bytes = bytes,
          .flops = flops,
          .make = make,
          .gpu = s.compute == Compute::f32};
}

// Cases of whole videos, for GPUs.
inline void add_attention_video_cases(std::vector<OpCase>& cases) {
  const auto add_gpu = [&](AttentionCase s) {
    s.b = 1, s.d = s.d == 64 ? 64 : 128, s.sampled = true;
    cases.push_back(attention_op_case(CaseKind::video, s));
    cases.back().cpu = false;
  };
  add_gpu({.lq = 32760, .lk = 32760, .h = 12, .fused = true});
  add_gpu({.lq = 32760, .lk = 512, .h = 12});
  add_gpu({.lq = 32760, .lk = 78, .h = 12, .finite = true});  // a prompt's keys, one of which stands for many
  add_gpu({.lq = 32760, .lk = 32760, .h = 40, .fused = true});
  add_gpu({.lq = 32760, .lk = 32760, .h = 12, .powers = true});
  add_gpu({.lq = 75600, .lk = 75600, .h = 12, .fused = true});
  // A chunk of three frames after a cache that is nearly full (Self-Forcing), and the same as one range.
  add_gpu({.lq = 4680, .lk = 28080, .h = 12, .powers = true, .length = 26520, .more = {{4680}}});
  add_gpu({.lq = 4680, .lk = 32760, .h = 12, .powers = true});
  add_gpu({.lq = 4680, .lk = 32760, .h = 12, .powers = true, .eight_bits = true});
  add_gpu({.lq = 4680,
           .lk = 28080,
           .h = 12,
           .powers = true,
           .length = 26520,
           .more = {{4680}},
           .eight_bits = true});
  for (const bool eight : {false, true})
    add_gpu({.lq = 32760, .lk = 32760, .h = 24, .d = 64, .powers = true, .eight_bits = eight});
  add_gpu({.lq = 32760, .lk = 512, .h = 40});
  add_gpu({.lq = 32760, .lk = 32760, .h = 12, .causal = true});
  // Masks and key biases in 8 bits, and what was used before them.
  add_gpu({.lq = 32760, .lk = 32760, .h = 12, .causal = true, .eight_bits = true});
  for (const bool eight : {false, true}) {
    add_gpu({.lq = 32760, .lk = 32760, .h = 12, .finite = true, .eight_bits = eight});
    add_gpu({.lq = 4680,
             .lk = 28080,
             .h = 12,
             .powers = true,
             .length = 26520,
             .more = {{4680, -1, true, false, 0, 1560}},
             .eight_bits = eight});
  }
  add_gpu({.lq = 32760, .lk = 32760, .h = 12, .fused = true, .eight_bits = true});
  add_gpu({.lq = 32760, .lk = 32760, .h = 40, .powers = true, .eight_bits = true});
  for (const int64_t listed : {30, 50, 70, 100})
    add_gpu({.lq = 32760, .lk = 32760, .h = 12, .powers = true, .listed = listed});
  // FastWan's cubes, and the blocks of SLA.
  for (const int64_t listed : {10, 20})
    for (const int64_t alike : {0, 50, 80})
      add_gpu({.lq = 32760,
               .lk = 32760,
               .h = 12,
               .powers = true,
               .listed = listed,
               .cut_queries = 64,
               .cut_keys = 64,
               .cubes = true,
               .alike = alike});
  add_gpu({.lq = 32760, .lk = 32760, .h = 12, .powers = true, .listed = 10, .cut_keys = 64});
  for (const int64_t listed : {30, 100})
    add_gpu({.lq = 32760, .lk = 32760, .h = 12, .powers = true, .listed = listed, .eight_bits = true});
}

}  // namespace tachy::ops
