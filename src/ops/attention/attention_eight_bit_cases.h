// Cases of attention that may round to 8 bits.
#pragma once

#include "ops/attention/attention_list_cases.h"
#include "ops/attention/attention_video_cases.h"

namespace tachy::ops {

// Adds cases of several ranges of keys, and of keys whose number only the device knows: some of them, none at all,
// or none of a range; heads of 64 channels; and rows that are computed again.
template <class Add>
void add_attention_eight_bit_range_cases(Add&& add) {
  add(CaseKind::tiny, {.b = 2, .lq = 150, .lk = 500, .h = 2, .d = 128, .lse = true, .more = {{130}}});
  add(CaseKind::tiny, {.b = 1, .lq = 300, .lk = 450, .h = 2, .d = 128, .lse = true, .length = 201});
  add(CaseKind::tiny, {.b = 1, .lq = 140, .lk = 200, .h = 1, .d = 128, .lse = true, .length = 0});
  add(CaseKind::tiny,
      {.b = 2, .lq = 400, .lk = 260, .h = 1, .d = 64, .lse = true, .length = 0, .more = {{129}, {64, 1}}});
  add(CaseKind::tiny, {.b = 1, .lq = 270, .lk = 300, .h = 3, .d = 72, .more = {{64, 50}, {1}, {257}}});
  for (const float offset : {1.5f, -1.5f})
    add(CaseKind::tiny, {.b = 1,
                         .lq = 600,
                         .lk = 900,
                         .h = 2,
                         .d = 128,
                         .lse = true,
                         .powers = true,
                         .offset_q = offset,
                         .length = 777,
                         .more = {{300, 0}, {130}}});
  // Heads of up to 64 channels, of whole ranges.
  add(CaseKind::tiny, {.b = 2, .lq = 500, .lk = 700, .h = 2, .d = 64, .lse = true, .powers = true});
  add(CaseKind::tiny, {.b = 1, .lq = 385, .lk = 129, .h = 2, .d = 40, .lse = true});
  add(CaseKind::tiny, {.b = 1, .lq = 300, .lk = 1500, .h = 2, .d = 64, .lse = true, .sharp = 20});
}

// The same with causal masks, windows and key biases: rows that see nothing of the last keys, or of all, or a few keys
// only; ranges of which each has masks of its own; biases that mask, are large, or absorb the scores; and rows that are
// computed again.
template <class Add>
void add_attention_eight_bit_mask_cases(Add&& add) {
  add(CaseKind::tiny, {.b = 2, .lq = 300, .lk = 300, .h = 2, .d = 128, .causal = true, .lse = true});
  add(CaseKind::tiny,
      {.b = 2, .lq = 500, .lk = 500, .h = 1, .d = 64, .fused = true, .causal = true, .lse = true});
  add(CaseKind::tiny, {.b = 1,
                       .lq = 600,
                       .lk = 900,
                       .h = 2,
                       .d = 128,
                       .causal = true,
                       .lse = true,
                       .offset = 300,
                       .block = 90});
  add(CaseKind::tiny,
      {.b = 1, .lq = 600, .lk = 400, .h = 2, .d = 64, .causal = true, .lse = true, .offset = -300});
  for (const int64_t window : {1, 70, 300})
    add(CaseKind::tiny, {.b = 1,
                         .lq = 500,
                         .lk = 700,
                         .h = 2,
                         .d = 128,
                         .causal = true,
                         .lse = true,
                         .offset = 200,
                         .window = window});
  add(CaseKind::tiny,
      {.b = 1, .lq = 420, .lk = 40, .h = 2, .d = 72, .causal = true, .lse = true, .offset = 3, .window = 30});
  for (const int64_t every : {1, 3, -1})  // -1: finfo.min everywhere, so that all weights are the same
    add(CaseKind::tiny, {.b = 2, .lq = 129, .lk = 300, .h = 2, .d = 128, .masked_every = every, .lse = true});
  add(CaseKind::tiny, {.b = 2, .lq = 400, .lk = 701, .h = 2, .d = 64, .lse = true, .finite = true});
  add(CaseKind::tiny, {.b = 2,
                       .lq = 450,
                       .lk = 600,
                       .h = 2,
                       .d = 128,
                       .lse = true,
                       .length = 310,
                       .more = {{450, -1, true, true, 0, 150}}});
  add(CaseKind::tiny,
      {.b = 1,
       .lq = 450,
       .lk = 450,
       .h = 1,
       .d = 64,
       .masked_every = 3,
       .causal = true,
       .lse = true,
       .powers = true,
       .length = 400,
       .block = 90,
       .more = {{300, 0, false, true}, {257, 200, false, true}, {200, -1, true, false, 20, 1, 90}}});
  add(CaseKind::tiny,
      {.b = 1, .lq = 140, .lk = 200, .h = 1, .d = 128, .causal = true, .lse = true, .length = 0});
  add(CaseKind::tiny, {.b = 1,
                       .lq = 520,
                       .lk = 800,
                       .h = 1,
                       .d = 128,
                       .causal = true,
                       .lse = true,
                       .offset = 280,
                       .sharp = 20});
  add(CaseKind::tiny, {.b = 1,
                       .lq = 300,
                       .lk = 700,
                       .h = 2,
                       .d = 128,
                       .causal = true,
                       .powers = true,
                       .offset_q = 1.5f,
                       .more = {{130}}});
}

// Cases that may round to 8 bits. Some are usual, or have head dims below 128 or partial blocks; in others
// keys have a mean, or scores so large that some or all rows are computed in bf16.
inline void add_attention_eight_bit_cases(std::vector<OpCase>& cases) {
  const auto add_case = [&](CaseKind kind, AttentionCase s) {
    s.eight_bits = true;
    cases.push_back(attention_op_case(kind, s));
    // If scores are so far apart that a few keys decide, rounding may hit twice as badly as in the yardstick.
    if (s.sharp != 1 || s.offset_q != 0) cases.back().gpu_factor = 2;
  };
  add_case(CaseKind::tiny, {.b = 2, .lq = 150, .lk = 700, .h = 2, .d = 128, .lse = true, .powers = true});
  add_case(CaseKind::tiny, {.b = 1, .lq = 300, .lk = 450, .h = 3, .d = 64, .lse = true});
  add_case(CaseKind::tiny, {.b = 1, .lq = 5, .lk = 1, .h = 1, .d = 128, .lse = true});
  add_case(CaseKind::tiny, {.b = 1, .lq = 257, .lk = 129, .h = 2, .d = 104});
  add_case(CaseKind::tiny, {.b = 1, .lq = 600, .lk = 600, .h = 2, .d = 128, .fused = true, .lse = true});
  for (const float offset : {1.5f, -1.5f})
    add_case(CaseKind::tiny,
             {.b = 1, .lq = 300, .lk = 450, .h = 2, .d = 128, .powers = true, .offset_q = offset});
  for (const float sharp : {5.0f, 20.0f, 100.0f})
    add_case(CaseKind::tiny, {.b = 1, .lq = 300, .lk = 1500, .h = 2, .d = 128, .lse = true, .sharp = sharp});
  add_case(CaseKind::odd, {.b = 1, .lq = 1000, .lk = 2000, .h = 3, .d = 128, .lse = true, .powers = true});
  add_attention_eight_bit_range_cases(add_case);
  add_attention_eight_bit_mask_cases(add_case);
  add_attention_eight_bit_list_cases(add_case);
}

}  // namespace tachy::ops
