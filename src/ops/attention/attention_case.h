// What a case of attention is made of, forward and backward.
#pragma once

#include <string>
#include <vector>

#include "ops/attention/attention_impl.h"
#include "ops/op_case.h"

namespace tachy::ops {

// One more range of keys.
struct RangeCase {
  int64_t lk;
  int64_t length = -1;  // how many of them are there, on the device; -1: all
  bool causal = false, biased = false;
  int64_t offset = 0, block = 1;
};

struct AttentionCase {
  int64_t b, lq, lk, h, d;
  int64_t masked_every = 0;  // key_bias -inf at every n-th key; 1: all keys; -1: finfo.min everywhere
  bool bias = false, accumulate = false, fused = false;  // fused: q, k, v are slices of one [B, L, 3, H, D]
  bool causal = false, lse = false;
  int64_t offset = 0;  // causal_offset
  Compute compute = Compute::f32;
  bool finite = false;             // a key bias, none of it a mask
  float sharp = 1;                 // scores are so many times as large as usual
  bool sampled = false;            // the definition answers some queries
  bool powers = false;             // of two: the scale is in q
  float offset_q = 0;              // added to q's values, and 1 to k's: scores far from 0
  int64_t length = -1, block = 1;  // of the first range, as in RangeCase
  std::vector<RangeCase> more = {};
};

// How many keys are there, where the op computes.
inline Tensor length_of(CaseMemory& memory, int64_t length) {
  if (length < 0) return {};
  const Tensor t = memory.rows(1, 2);
  *memory.host(t).as<int32_t>() = static_cast<int32_t>(length);
  return t;
}

inline KeyRange range_of(CaseMemory& memory, const AttentionCase& s, const RangeCase& r) {
  KeyRange range{.k = memory.normal({s.b, r.lk, s.h, s.d}), .v = memory.normal({s.b, r.lk, s.h, s.d})};
  range.length = length_of(memory, r.length);
  if (r.biased) range.key_bias = memory.param({s.b, r.lk}, 2), range.finite_bias = true;
  range.causal = r.causal, range.causal_offset = r.offset, range.causal_block = r.block;
  return range;
}

inline KeyRanges more_ranges(CaseMemory& memory, const AttentionCase& s) {
  if (s.more.empty()) return {};
  if (s.more.size() == 1) return {range_of(memory, s, s.more[0])};
  const KeyRange second = range_of(memory, s, s.more[0]), third = range_of(memory, s, s.more[1]);
  if (s.more.size() == 2) return {second, third};
  return {second, third, range_of(memory, s, s.more[2])};
}

inline std::string name_of(const RangeCase& r) {
  return fmt::format("+{}{}{}{}", r.lk, r.length >= 0 ? fmt::format("of{}", r.length) : "",
                     r.causal ? fmt::format("causal{}by{}", r.offset, r.block) : "",
                     r.biased ? "biased" : "");
}

inline std::string ranges_name(const AttentionCase& s) {
  std::string name;
  for (const RangeCase& r : s.more) name += name_of(r);
  return name;
}

}  // namespace tachy::ops
