// Cases of attention.
#pragma once

#include "ops/attention/attention_backward_cases.h"
#include "ops/attention/attention_eight_bit_cases.h"
#include "ops/attention/attention_handful_cases.h"
#include "ops/attention/attention_list_cases.h"
#include "ops/attention/attention_mask_cases.h"
#include "ops/attention/attention_video_cases.h"

namespace tachy::ops {

// Adds cases of several ranges of keys, lengths that only the device knows, and causal blocks, as when a
// chunk follows a cache of keys.
template <class Add>
void add_attention_range_cases(Add&& add) {
  add(CaseKind::tiny, {.b = 2, .lq = 5, .lk = 9, .h = 2, .d = 8, .lse = true, .length = 4, .more = {{3}}});
  add(CaseKind::tiny, {.b = 1, .lq = 12, .lk = 12, .h = 1, .d = 8, .causal = true, .lse = true, .block = 4});
  add(CaseKind::odd,
      {.b = 2, .lq = 33, .lk = 301, .h = 2, .d = 20, .lse = true, .length = 77, .more = {{40, -1, true}}});
  // Uses no key of the first range, all of the second, and some of the third, which has a bias; the fourth
  // has a causal mask of blocks.
  add(CaseKind::odd, {.b = 1,
                      .lq = 50,
                      .lk = 64,
                      .h = 2,
                      .d = 24,
                      .accumulate = true,
                      .length = 0,
                      .more = {{300}, {90, 31, false, true}, {60, -1, true, false, 10, 7}}});
  add(CaseKind::odd,
      {.b = 1, .lq = 40, .lk = 70, .h = 1, .d = 16, .lse = true, .length = 0});  // no key at all
  add(CaseKind::odd,
      {.b = 1, .lq = 30, .lk = 90, .h = 1, .d = 160, .lse = true, .length = 50, .more = {{20}}});
  // The kernels for 16-byte rows accept these cases, in which a range may end within a step.
  add(CaseKind::tiny, {.b = 2, .lq = 150, .lk = 300, .h = 2, .d = 128, .lse = true, .length = 201});
  add(CaseKind::tiny,
      {.b = 1, .lq = 300, .lk = 400, .h = 2, .d = 64, .lse = true, .length = 0, .more = {{129}, {64}}});
  add(CaseKind::tiny, {.b = 1, .lq = 140, .lk = 200, .h = 1, .d = 128, .lse = true, .length = 0});
  add(CaseKind::tiny, {.b = 1,
                       .lq = 100,
                       .lk = 257,
                       .h = 2,
                       .d = 128,
                       .causal = true,
                       .lse = true,
                       .offset = 60,
                       .block = 50});
  add(CaseKind::tiny, {.b = 2,
                       .lq = 96,
                       .lk = 190,
                       .h = 1,
                       .d = 64,
                       .lse = true,
                       .length = 130,
                       .more = {{96, -1, true, false, 0, 32}, {70, 70, false, true}}});
}

// Cases that a single pass over the keys might get wrong, with scores far apart or powers of two.
inline void add_attention_hard_cases(std::vector<OpCase>& cases) {
  const auto add_case = [&](CaseKind kind, const AttentionCase& s) {
    cases.push_back(attention_op_case(kind, s));
  };
  // In some rows later scores far exceed those of the first keys, and some queries' keys are divided among
  // several blocks.
  add_case(CaseKind::tiny, {.b = 1, .lq = 150, .lk = 700, .h = 2, .d = 128, .lse = true, .sharp = 100});
  add_case(CaseKind::tiny, {.b = 1, .lq = 300, .lk = 1500, .h = 1, .d = 64, .lse = true, .sharp = 100});
  add_case(CaseKind::odd, {.b = 1, .lq = 600, .lk = 1500, .h = 1, .d = 128, .lse = true});
  add_case(CaseKind::odd, {.b = 1, .lq = 333, .lk = 1100, .h = 1, .d = 72, .lse = true, .sharp = 60});
  // The same without lse, which flash_long_sm80 refuses, and heads of 64 channels, of which it takes other tiles.
  add_case(CaseKind::tiny, {.b = 1, .lq = 300, .lk = 700, .h = 2, .d = 128, .sharp = 100});
  add_case(CaseKind::tiny, {.b = 1, .lq = 257, .lk = 129, .h = 2, .d = 104});
  add_case(CaseKind::tiny, {.b = 2, .lq = 400, .lk = 300, .h = 2, .d = 64});
  add_case(CaseKind::tiny, {.b = 1, .lq = 385, .lk = 129, .h = 2, .d = 40});
  add_case(CaseKind::tiny, {.b = 1, .lq = 300, .lk = 700, .h = 2, .d = 64, .sharp = 100});
  // flash_stays_sm80 meets whole stages of keys here, a last one that begins within the one before it, and more tiles than
  // a GPU has multiprocessors, so that blocks take several.
  add_case(CaseKind::tiny, {.b = 2, .lq = 530, .lk = 384, .h = 2, .d = 128});
  add_case(CaseKind::tiny, {.b = 2, .lq = 2, .lk = 257, .h = 150, .d = 128});
  add_case(CaseKind::odd, {.b = 1, .lq = 257, .lk = 130, .h = 80, .d = 128});
  for (const int64_t dim : {64, 128})
    add_case(CaseKind::tiny,
             {.b = 1, .lq = 300, .lk = 450, .h = 1, .d = dim, .powers = true, .offset_q = 1.5f});
  // Scores are powers of two. Some rows are usual; in others all weights would be infinite or zero if nothing
  // were subtracted.
  add_case(CaseKind::tiny, {.b = 2, .lq = 150, .lk = 700, .h = 2, .d = 128, .lse = true, .powers = true});
  add_case(CaseKind::tiny, {.b = 1, .lq = 300, .lk = 500, .h = 3, .d = 64, .lse = true, .powers = true});
  for (const float offset : {1.5f, -1.5f})
    add_case(
        CaseKind::tiny,
        {.b = 1, .lq = 300, .lk = 450, .h = 2, .d = 128, .lse = true, .powers = true, .offset_q = offset});
  add_case(CaseKind::odd,
           {.b = 1, .lq = 600, .lk = 1500, .h = 1, .d = 128, .lse = true, .sharp = 200, .powers = true});
  for (const float offset : {0.0f, 1.5f, -1.5f})  // rows of the latter two are computed again
    add_case(CaseKind::tiny, {.b = 1,
                              .lq = 600,
                              .lk = 1500,
                              .h = 2,
                              .d = 128,
                              .lse = true,
                              .powers = true,
                              .offset_q = offset,
                              .length = 1111,
                              .more = {{300, 0}, {130}, {900, 899}}});
}

inline std::vector<OpCase> attention_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](CaseKind kind, AttentionCase s) {
    cases.push_back(attention_op_case(kind, s));
    s.compute = Compute::bf16;
    cases.push_back(attention_op_case(kind, s));
  };
  add(CaseKind::tiny, {1, 1, 1, 1, 1});
  add(CaseKind::tiny, {1, 4, 4, 2, 8});
  add(CaseKind::tiny, {2, 5, 3, 2, 16, 2, true});
  add(CaseKind::odd, {1, 97, 300, 2, 64, 3});
  add(CaseKind::odd, {2, 13, 77, 3, 20, 0, true, true});
  add(CaseKind::odd, {1, 33, 33, 2, 40, 0, false, false, true});
  add(CaseKind::odd, {1, 110, 7, 1, 130});
  add(CaseKind::odd, {1, 50, 257, 1, 384});
  add(CaseKind::odd, {1, 9, 600, 1, 24, 1});   // every key is masked, so the result is zeros
  add(CaseKind::odd, {1, 9, 300, 1, 24, -1});  // finfo.min everywhere gives uniform weights
  add(CaseKind::tiny, {.b = 2, .lq = 6, .lk = 6, .h = 2, .d = 8, .causal = true, .lse = true});
  add(CaseKind::tiny, {.b = 1, .lq = 3, .lk = 7, .h = 1, .d = 4, .causal = true, .lse = true, .offset = 4});
  add(CaseKind::odd, {.b = 1, .lq = 301, .lk = 301, .h = 2, .d = 36, .causal = true, .lse = true});
  add(CaseKind::odd, {.b = 2,
                      .lq = 100,
                      .lk = 530,
                      .h = 1,
                      .d = 24,
                      .masked_every = 3,
                      .bias = true,
                      .causal = true,
                      .lse = true,
                      .offset = 430});
  // The first queries see no key, so they give zeros, and lse is -inf.
  add(CaseKind::odd,
      {.b = 1, .lq = 120, .lk = 90, .h = 2, .d = 20, .causal = true, .lse = true, .offset = -30});
  add(CaseKind::odd, {.b = 1, .lq = 5, .lk = 300, .h = 2, .d = 16, .masked_every = 1, .lse = true});
  add(CaseKind::odd, {.b = 1, .lq = 40, .lk = 513, .h = 1, .d = 300, .accumulate = true, .lse = true});
  // Scores of 300 channels are sums in float32, of which tensor cores cut off the last bits, and with 40 queries the
  // yardstick may happen to have rounded them all well.
  for (size_t n = cases.size() - 2; n < cases.size(); ++n) cases[n].gpu_factor = 2;
  // Ragged lengths with aligned rows, as the kernels for 16-byte rows accept.
  add(CaseKind::tiny, {.b = 2, .lq = 130, .lk = 193, .h = 2, .d = 128, .lse = true});
  add(CaseKind::tiny, {.b = 1, .lq = 77, .lk = 257, .h = 3, .d = 64, .accumulate = true});
  add(CaseKind::tiny, {.b = 1, .lq = 257, .lk = 65, .h = 1, .d = 96, .fused = false, .lse = true});
  add(CaseKind::tiny, {.b = 1, .lq = 200, .lk = 200, .h = 2, .d = 40, .fused = true, .lse = true});
  add(CaseKind::tiny, {.b = 2, .lq = 70, .lk = 131, .h = 2, .d = 64, .masked_every = 3, .bias = true});
  add(CaseKind::tiny, {.b = 2, .lq = 129, .lk = 300, .h = 1, .d = 128, .masked_every = 5, .lse = true});
  add(CaseKind::tiny, {.b = 1, .lq = 40, .lk = 70, .h = 1, .d = 128, .masked_every = -1, .lse = true});
  add(CaseKind::tiny, {.b = 1, .lq = 40, .lk = 70, .h = 1, .d = 64, .masked_every = 1, .lse = true});
  add(CaseKind::tiny, {.b = 1, .lq = 300, .lk = 300, .h = 2, .d = 128, .causal = true, .lse = true});
  add(CaseKind::tiny,
      {.b = 1, .lq = 150, .lk = 90, .h = 1, .d = 64, .causal = true, .lse = true, .offset = -60});
  add(CaseKind::tiny,
      {.b = 1, .lq = 150, .lk = 450, .h = 1, .d = 128, .bias = true, .causal = true, .offset = 300});
  add(CaseKind::tiny, {.b = 1, .lq = 70, .lk = 90, .h = 1, .d = 384, .accumulate = true, .lse = true});
  add_attention_handful_cases(add);
  add_attention_hard_cases(cases);
  add_attention_eight_bit_cases(cases);
  // A prompt's keys, one of which stands for many.
  add(CaseKind::tiny, {.b = 1, .lq = 300, .lk = 78, .h = 3, .d = 128, .finite = true});
  add(CaseKind::tiny, {.b = 1, .lq = 300, .lk = 121, .h = 3, .d = 128, .lse = true, .finite = true});
  add(CaseKind::tiny, {.b = 2, .lq = 140, .lk = 200, .h = 2, .d = 64, .finite = true});
  add_attention_range_cases(add);
  add_attention_mask_cases(add);
  add_attention_list_cases(
      add, [&](CaseKind kind, const AttentionCase& s) { cases.push_back(attention_op_case(kind, s)); });
  add_attention_cut_cases(add);
  for (const float offset : {0.0f, 1.5f})
    cases.push_back(attention_op_case(CaseKind::tiny, {.b = 1,
                                                       .lq = 600,
                                                       .lk = 1500,
                                                       .h = 2,
                                                       .d = 128,
                                                       .lse = true,
                                                       .powers = true,
                                                       .offset_q = offset,
                                                       .listed = 50,
                                                       .ragged = true,
                                                       .cut_queries = 64,
                                                       .cut_keys = 64}));
  add(CaseKind::real, {1, 4096, 4096, 2, 128});
  add(CaseKind::real, {.b = 1, .lq = 4096, .lk = 4096, .h = 2, .d = 128, .causal = true, .lse = true});
  add(CaseKind::real, {1, 1560, 1560, 12, 128});
  add(CaseKind::real, {1, 1560, 512, 12, 128});
  add(CaseKind::real, {1, 1560, 1560, 1, 384});  // the VAE's middle block, 208 x 480
  add_attention_video_cases(cases);
  add_attention_backward_cases(cases);
  return cases;
}

}  // namespace tachy::ops
