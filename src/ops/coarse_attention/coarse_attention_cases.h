// Cases of coarse_attention. Lists must equal the definition's, so cases with `out` compare that alone.
#pragma once

#include <cmath>

#include "ops/coarse_attention/coarse_attention_impl.h"
#include "ops/cut_case.h"
#include "ops/op_case.h"

namespace tachy::ops {

struct CoarseCase {
  int64_t b, lq, lk, h, d, keep;
  int64_t cut_queries = 0, cut_keys = 0;  // tokens of the largest block; 0: they are not cut
  bool out = false, fused = false, cubes = false;
  float ties = 1;  // deviation of the values; where it is small, scores are near to one another
};

inline OpCase coarse_attention_case(CaseKind kind, const CoarseCase& s) {
  const CutCase cut_q{s.lq, s.cut_queries, s.cubes}, cut_k{s.lk, s.cut_keys, s.cubes};
  const auto blocks_of = [](const CutCase& cut) {
    return cut.most ? static_cast<int64_t>(cut_ends(cut).size()) : coarse_blocks({}, cut.tokens);
  };
  const int64_t queries = blocks_of(cut_q), keys = blocks_of(cut_k);
  const auto name =
      fmt::format("{}x{}x{}x{}x{}-keep{}-cut{}by{}{}{}{}{}", s.b, s.lq, s.lk, s.h, s.d, s.keep, s.cut_queries,
                  s.cut_keys, s.cubes ? "cubes" : "", s.out ? "-out" : "", s.fused ? "-fused" : "",
                  s.ties == 0  ? "-ties"
                  : s.ties < 1 ? fmt::format("-near{}", s.ties)
                               : "");
  const auto values = static_cast<double>(s.b * s.h * s.d);
  const auto tokens = static_cast<double>(s.lq + (s.out ? 2 : 1) * s.lk),
             pairs = static_cast<double>(queries) * static_cast<double>(keys);
  const auto make = [=](CaseMemory& memory) {
    CoarseAttentionArgs args{.scale = 1 / std::sqrt(static_cast<float>(s.d)), .keep = s.keep};
    if (s.fused) {
      const Tensor qkv = memory.normal({s.b, s.lq, 3, s.h, s.d});
      args.q = qkv.select(2, 0), args.k = qkv.select(2, 1);
      if (s.out) args.v = qkv.select(2, 2);
    } else {
      args.q = memory.normal({s.b, s.lq, s.h, s.d}, 3 * s.ties, 0.5f);
      args.k = memory.normal({s.b, s.lk, s.h, s.d}, 3 * s.ties, 0.5f);
      if (s.out) args.v = memory.normal({s.b, s.lk, s.h, s.d});
    }
    if (cut_q.most) args.query_ends = cut_tensor(memory, cut_q);
    if (cut_k.most) args.key_ends = cut_tensor(memory, cut_k);
    args.indices = memory.output(DType::i32, {s.b, s.h, queries, s.keep});
    args.counts = memory.output(DType::i32, {s.b, s.h, queries});
    if (s.out) args.out = memory.output(DType::f32, {s.b, queries, s.h, s.d});
    BoundOp bound =
        bind_op<CoarseAttentionArgs>("coarse_attention", coarse_attention, coarse_attention_table(),
                                     s.out ? coarse_attention_working : nullptr, args,
                                     s.out ? std::vector{args.out} : std::vector{args.indices, args.counts});
    if (s.out) bound.written = {args.out, args.indices, args.counts};
    return bound;
  };
  return {"coarse_attention",
          name,
          kind,
          4 * values * tokens,
          values * (tokens + (s.out ? 4.0 : 2.0) * pairs),
          make};
}

inline std::vector<OpCase> coarse_attention_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, CoarseCase s) {
    cases.push_back(coarse_attention_case(kind, s));
    if (!s.out) s.out = true, cases.push_back(coarse_attention_case(kind, s));
  };
  add(CaseKind::tiny, {1, 1, 1, 1, 1, 1});
  add(CaseKind::tiny, {1, 300, 500, 2, 8, 2});
  add(CaseKind::tiny, {2, 1000, 1000, 2, 64, 3, 64, 64, false, true});
  add(CaseKind::tiny, {2, 700, 900, 3, 128, 9, 0, 64});
  add(CaseKind::tiny, {1, 700, 700, 1, 16, 4, 64, 64, false, false, false, 0});
  add(CaseKind::tiny, {1, 500, 500, 1, 128, 14, 50, 50});
  for (const float ties : {1e-3f, 1e-5f, 1e-6f, 1e-7f})
    add(CaseKind::tiny, {1, 640, 1500, 2, 64, 31, 64, 8, false, false, false, ties});
  add(CaseKind::odd, {2, 777, 1111, 3, 20, 5, 33, 64});
  add(CaseKind::odd, {1, 333, 777, 1, 130, 7});
  add(CaseKind::odd, {1, 60, 9000, 1, 24, 100, 2, 1});  // more blocks of keys than most kernels have room for
  add(CaseKind::real, {1, 8192, 8192, 12, 128, 20, 64, 64, false, true});
  add(CaseKind::video, {1, 32760, 32760, 12, 128, 125, 64, 64, true, true, true});
  add(CaseKind::video, {1, 32760, 32760, 12, 128, 51, 0, 64, false, true});
  return on_gpu(cases);
}

}  // namespace tachy::ops
