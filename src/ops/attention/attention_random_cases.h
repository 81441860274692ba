// Attention of random shapes, for `op_runner --random N`: sizes that nobody thought of, with masks, ranges,
// biases and layouts in any combination. They are small, because the definition computes each of them in
// plain loops.
#pragma once

#include "ops/attention/attention_cases.h"
#include "ops/random_draw.h"

namespace tachy::ops {

// Draws one case after another; the same seed gives the same cases.
class RandomAttention : RandomDraw {
 public:
  explicit RandomAttention(uint64_t seed) : RandomDraw(seed), bits_(~seed) {}

  // Data of odd cases lies at any address, which Hopper's bulk copies do not accept.
  OpCase next() {
    AttentionCase s = sizes();
    s.lse = chance(0.5), s.accumulate = chance(0.1);
    s.sharp = chance(0.1) ? 30.0f : 1.0f;
    if (chance(0.2) && s.sharp == 1 && !s.fused)
      s.powers = true, s.offset_q = chance(0.3) ? (chance(0.5) ? 1.5f : -1.5f) : 0.0f;
    if (chance(0.25)) {
      s.causal = true, s.block = chance(0.5) ? 1 : one_of(1, std::min<int64_t>(s.lk, 70));
      s.offset = chance(0.5) ? s.lk - s.lq : one_of(-std::min<int64_t>(s.lq, 5), s.lk);
    }
    if (s.causal && s.block == 1 && bits_() % 3 == 0) s.window = static_cast<int64_t>(bits_() % 300) + 1;
    if (chance(0.3)) s.length = one_of(0, s.lk);
    if (chance(0.3))
      for (int64_t i = one_of(1, KeyRanges::kMost); i > 0; --i) s.more.push_back(range());
    if (s.more.empty() && s.length < 0) add_bias(s);
    s.eight_bits = bits_() % 5 == 0;
    if (s.eight_bits) s.lq = std::max<int64_t>(s.lq, 16), s.lk = s.fused ? s.lq : s.lk;
    OpCase drawn = attention_op_case(chance(0.2) ? CaseKind::odd : CaseKind::tiny, s);
    // Large scores are rounded coarsely, 8 bits are coarse, and with a few keys the yardstick may
    // happen to round them well. It may even be exact for a few log-sum-exps, and a GPU's logarithm
    // has an error of some ulp.
    const bool coarse = s.sharp != 1 || s.offset_q != 0 || s.eight_bits, few = s.lse && s.b * s.lq * s.h < 64;
    if (coarse || few)
      drawn.make = [make = drawn.make, factor = coarse ? 4 : 2](CaseMemory& memory) {
        BoundOp bound = make(memory);
        bound.factor *= factor;
        return bound;
      };
    return drawn;
  }

 private:
  AttentionCase sizes() {
    constexpr double kMostFlops = 6e6;
    for (;;) {
      AttentionCase s{.b = one_of(1, 2), .lq = length(700), .lk = length(1500), .h = one_of(1, 3)};
      if (chance(0.2)) s.fused = true, s.lk = s.lq;
      s.d = chance(0.4) ? 128 : chance(0.5) ? 64 : chance(0.8) ? 8 * one_of(1, 20) : one_of(1, 160);
      if (4.0 * static_cast<double>(s.b * s.lq * s.lk * s.h * s.d) <= kMostFlops) return s;
    }
  }
  RangeCase range() {
    RangeCase r{.lk = length(200)};
    if (chance(0.4)) r.length = one_of(0, r.lk);
    if (chance(0.3))
      r.causal = true, r.offset = one_of(0, r.lk), r.block = one_of(1, std::min<int64_t>(r.lk, 40));
    r.biased = chance(0.3);
    return r;
  }
  void add_bias(AttentionCase& s) {
    if (chance(0.15))
      s.finite = true;
    else if (chance(0.1))
      s.masked_every = one_of(2, 9);
    else if (chance(0.1))
      s.bias = true;
  }

  std::mt19937_64 bits_;
};

inline std::vector<OpCase> random_attention_cases(uint64_t seed, int64_t count) {
  RandomAttention draw(seed);
  std::vector<OpCase> cases;
  for (int64_t i = 0; i < count; ++i) cases.push_back(draw.next());
  return cases;
}

}  // namespace tachy::ops
