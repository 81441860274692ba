// Cases of attention with a handful of keys.
#pragma once

#include "ops/attention/attention_case.h"

namespace tachy::ops {

// Adds cases with a handful of queries and keys: two keys, as many as a kernel holds, and one more; many
// queries; partial last groups; head dims that are no power of two; and many places with a few frames each,
// as in models that follow actions.
template <class Add>
void add_attention_handful_cases(Add&& add) {
  add(CaseKind::tiny, {.b = 37, .lq = 3, .lk = 6, .h = 5, .d = 64, .lse = true});
  add(CaseKind::tiny, {.b = 1, .lq = 141, .lk = 6, .h = 3, .d = 64});
  add(CaseKind::tiny, {.b = 30, .lq = 5, .lk = 2, .h = 3, .d = 128});
  add(CaseKind::tiny, {.b = 9, .lq = 7, .lk = 8, .h = 2, .d = 24, .lse = true});
  add(CaseKind::tiny, {.b = 11, .lq = 6, .lk = 9, .h = 2, .d = 40, .lse = true, .sharp = 100});
  add(CaseKind::tiny, {.b = 1, .lq = 16, .lk = 16, .h = 7, .d = 72, .fused = true});
  add(CaseKind::tiny, {.b = 2, .lq = 9, .lk = 17, .h = 2, .d = 64});
  add(CaseKind::odd, {.b = 11, .lq = 3, .lk = 6, .h = 2, .d = 20, .lse = true});
  add(CaseKind::real, {.b = 880, .lq = 3, .lk = 6, .h = 16, .d = 64});
  add(CaseKind::real, {.b = 1, .lq = 2640, .lk = 6, .h = 16, .d = 64});
}

}  // namespace tachy::ops
