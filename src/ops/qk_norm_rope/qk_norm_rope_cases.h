// Cases of qk_norm_rope.
#pragma once

#include "ops/op_case.h"
#include "ops/qk_norm_rope/qk_norm_rope_impl.h"

namespace tachy::ops {

inline void add_qk_norm_rope_backward_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t b, int64_t l, int heads, int64_t d, bool rope) {
    cases.push_back(
        {"qk_norm_rope_backward", fmt::format("{}x{}x{}x{}{}", b, l, heads, d, rope ? "-rope" : ""), kind,
         12.0 * b * l * heads * d, 12.0 * b * l * heads * d, [=](CaseMemory& memory) {
           const int64_t c = heads * d;
           QkNormRopeBackwardArgs args{
               .x = memory.normal({b, l, c}), .weight = memory.param({c}), .heads = heads};
           if (rope) args.cos = memory.param({l, d / 2}), args.sin = memory.param({l, d / 2});
           args.dy = memory.normal({b, l, c});
           args.dx = memory.output({b, l, c}), args.dweight = memory.output(DType::f32, {c});
           return bind_op("qk_norm_rope_backward", qk_norm_rope_backward, qk_norm_rope_backward_table(),
                          qk_norm_rope_backward_working, args, {args.dx, args.dweight});
         }});
  };
  add(CaseKind::tiny, 1, 3, 2, 8, true);
  add(CaseKind::odd, 2, 17, 3, 34, true);
  add(CaseKind::odd, 1, 9, 5, 22, false);
  add(CaseKind::tiny, 2, 33, 12, 128, true);
  add(CaseKind::tiny, 1, 33, 40, 128, false);
  add(CaseKind::video, 1, 32760, 12, 128, true);
}

// Cases with a norm of each head. Rows of a joined product are read place by place, so those of a place's
// frames are far apart. With `apart`, keys go to separate rows.
inline void add_qk_norm_rope_head_cases(std::vector<OpCase>& cases) {
  const auto add = [&](CaseKind kind, int64_t frames, int64_t places, int heads, int64_t d, bool apart) {
    const int64_t c = heads * d, values = 2 * frames * places * c;
    const auto name = fmt::format("{}x{}x{}x{}-heads{}", frames, places, heads, d, apart ? "-apart" : "");
    cases.push_back(
        {"qk_norm_rope", name, kind, 8.0 * values, 8.0 * values, [=](CaseMemory& memory) {
           const auto by_places = [=](Tensor t) {
             t.dims[0] = places, t.dims[1] = frames;
             t.strides[0] = t.strides[1], t.strides[1] = places * t.strides[0];
             return t;
           };
           const Tensor qkv = memory.inout(memory.normal({1, frames * places, 3 * c}));
           // All heads turn alike, each by the first head's columns of a table.
           const auto table = [&] { return memory.param({frames, heads * (d / 2)}).slice(1, 0, d / 2); };
           QkNormRopeArgs args{.x = by_places(qkv.slice(2, 0, c)), .heads = heads, .norm_heads = true};
           args.cos = table(), args.sin = table();
           args.y = args.x, args.x2 = args.y2 = by_places(qkv.slice(2, c, 2 * c));
           if (apart) args.y2 = by_places(memory.output({1, frames * places, c}));
           return bind_op("qk_norm_rope", qk_norm_rope, qk_norm_rope_table(), qk_norm_rope_working, args,
                          {args.y, args.y2});
         }});
  };
  add(CaseKind::tiny, 3, 4, 16, 64, false);
  add(CaseKind::tiny, 3, 1, 16, 64, true);
  add(CaseKind::tiny, 2, 5, 3, 128, true);
  add(CaseKind::odd, 2, 7, 3, 22, false);
  add(CaseKind::odd, 3, 5, 5, 14, true);
  add(CaseKind::real, 3, 880, 16, 64, true);
}

inline std::vector<OpCase> qk_norm_rope_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, int64_t b, int64_t l, int heads, int64_t d, bool tables, bool weight,
                       int64_t pad) {
    const int64_t c = heads * d;
    const auto name = fmt::format("{}x{}x{}x{}{}{}{}", b, l, heads, d, tables ? "" : "-norope",
                                  weight ? "" : "-plain", pad ? "-strided" : "");
    cases.push_back({"qk_norm_rope", name, kind, 8.0 * b * l * c, 8.0 * b * l * c, [=](CaseMemory& memory) {
                       QkNormRopeArgs args{.x = memory.normal({b, l, c + pad}).slice(2, 0, c),
                                           .scale = pad ? 3.0f : 1.0f,
                                           .heads = heads};
                       if (weight) args.weight = memory.param({c});
                       if (tables) args.cos = memory.param({l, d / 2}), args.sin = memory.param({l, d / 2});
                       args.y = memory.output({b, l, c + pad}).slice(2, pad, c + pad);
                       return bind_op("qk_norm_rope", qk_norm_rope, qk_norm_rope_table(),
                                      qk_norm_rope_working, args, {args.y});
                     }});
  };
  // Queries and keys are parts of one [B, L, 3C] buffer, in place.
  const auto add_pair = [&](CaseKind kind, int64_t b, int64_t l, int heads, int64_t d) {
    const int64_t c = heads * d;
    cases.push_back(
        {"qk_norm_rope", fmt::format("{}x{}x{}x{}-pair", b, l, heads, d), kind, 16.0 * b * l * c,
         16.0 * b * l * c, [=](CaseMemory& memory) {
           const Tensor qkv = memory.inout(memory.normal({b, l, 3 * c}));
           QkNormRopeArgs args{
               .x = qkv.slice(2, 0, c), .weight = memory.param({c}), .scale = 0.1275f, .heads = heads};
           args.cos = memory.param({l, d / 2}), args.sin = memory.param({l, d / 2});
           args.y = args.x, args.x2 = args.y2 = qkv.slice(2, c, 2 * c);
           args.weight2 = memory.param({c});
           return bind_op("qk_norm_rope", qk_norm_rope, qk_norm_rope_table(), qk_norm_rope_working, args,
                          {args.y, args.y2});
         }});
  };
  add_pair(CaseKind::tiny, 2, 5, 12, 128);
  add_pair(CaseKind::tiny, 1, 7, 40, 128);
  add_pair(CaseKind::tiny, 2, 9, 3, 128);
  add_pair(CaseKind::tiny, 1, 33, 6, 64);
  add_pair(CaseKind::tiny, 1, 9, 24, 128);
  add_pair(CaseKind::odd, 2, 11, 3, 24);
  add_pair(CaseKind::video, 1, 32760, 12, 128);
  add_pair(CaseKind::video, 1, 32760, 40, 128);
  add_pair(CaseKind::video, 1, 75600, 40, 128);
  add(CaseKind::tiny, 2, 5, 12, 128, false, true, 0);
  add(CaseKind::tiny, 1, 5, 40, 128, true, true, 16);
  add(CaseKind::video, 1, 32760, 40, 128, false, true, 0);  // queries of a cross-attention
  add(CaseKind::tiny, 1, 3, 2, 8, true, true, 0);
  add(CaseKind::odd, 2, 5, 3, 14, true, true, 3);
  add(CaseKind::odd, 1, 7, 5, 50, true, false, 0);
  add(CaseKind::odd, 2, 3, 1, 77, false, true, 1);
  add(CaseKind::real, 1, 3276, 40, 128, true, true, 0);
  add_qk_norm_rope_head_cases(cases);
  add_qk_norm_rope_backward_cases(cases);
  return on_gpu(cases);
}

}  // namespace tachy::ops
