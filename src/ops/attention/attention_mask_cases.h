// Cases of attention with causal masks and key biases and several blocks of queries, each of which sees a
// different number of keys.
#pragma once

#include "ops/attention/attention_case.h"

namespace tachy::ops {

template <class Add>
void add_attention_mask_cases(Add&& add) {
  add(CaseKind::tiny,
      {.b = 2, .lq = 700, .lk = 900, .h = 3, .d = 128, .causal = true, .lse = true, .offset = 200});
  add(CaseKind::tiny, {.b = 1, .lq = 513, .lk = 513, .h = 2, .d = 64, .fused = true, .causal = true});
  // Some rows see no key, in some the later keys have far larger scores, and some keys are also masked.
  add(CaseKind::tiny,
      {.b = 1, .lq = 600, .lk = 400, .h = 2, .d = 64, .causal = true, .lse = true, .offset = -300});
  add(CaseKind::tiny, {.b = 1,
                       .lq = 520,
                       .lk = 800,
                       .h = 1,
                       .d = 128,
                       .causal = true,
                       .lse = true,
                       .offset = 280,
                       .sharp = 100});
  add(CaseKind::tiny, {.b = 2,
                       .lq = 300,
                       .lk = 1100,
                       .h = 1,
                       .d = 64,
                       .masked_every = 2,
                       .causal = true,
                       .lse = true,
                       .offset = 500});
  add(CaseKind::tiny,
      {.b = 1, .lq = 260, .lk = 1500, .h = 2, .d = 128, .masked_every = 4, .lse = true, .sharp = 30});
  // Windows reach over one key, within a tile, or across several tiles; some rows lie after the last key;
  // there are biases and second ranges.
  add(CaseKind::tiny,
      {.b = 2, .lq = 300, .lk = 300, .h = 2, .d = 64, .fused = true, .causal = true, .window = 1});
  add(CaseKind::tiny, {.b = 1,
                       .lq = 500,
                       .lk = 700,
                       .h = 2,
                       .d = 128,
                       .causal = true,
                       .lse = true,
                       .offset = 200,
                       .window = 130});
  add(CaseKind::tiny, {.b = 1,
                       .lq = 520,
                       .lk = 300,
                       .h = 1,
                       .d = 64,
                       .masked_every = 3,
                       .causal = true,
                       .lse = true,
                       .offset = 17,
                       .sharp = 30,
                       .window = 64});
  add(CaseKind::odd, {.b = 1,
                      .lq = 77,
                      .lk = 131,
                      .h = 2,
                      .d = 20,
                      .bias = true,
                      .causal = true,
                      .offset = 60,
                      .window = 45});
  add(CaseKind::tiny, {.b = 2,
                       .lq = 200,
                       .lk = 400,
                       .h = 1,
                       .d = 64,
                       .causal = true,
                       .lse = true,
                       .offset = 400,
                       .length = 310,
                       .window = 250,
                       .more = {{200, -1, true, true, 0, 1, 90}}});
  add(CaseKind::tiny, {.b = 1,
                       .lq = 300,
                       .lk = 600,
                       .h = 2,
                       .d = 64,
                       .causal = true,
                       .lse = true,
                       .offset = 300,
                       .window = 140});
  // Some rows see no key of the first range, and a few of the second.
  add(CaseKind::tiny, {.b = 1,
                       .lq = 300,
                       .lk = 150,
                       .h = 2,
                       .d = 64,
                       .causal = true,
                       .lse = true,
                       .offset = -200,
                       .more = {{140, 100, false, false}}});
  // Blocks of 150 tokens follow a cache whose length only the device knows; both ranges have biases.
  add(CaseKind::tiny, {.b = 2,
                       .lq = 450,
                       .lk = 600,
                       .h = 2,
                       .d = 128,
                       .lse = true,
                       .length = 310,
                       .more = {{450, -1, true, true, 0, 150}}});
  add(CaseKind::tiny, {.b = 1,
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
                       .more = {{300, 0, false, true}, {257, 200, false, true}}});
}

}  // namespace tachy::ops
