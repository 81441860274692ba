// Attention over several ranges of keys is compared with the definition over a single range: the same keys
// one after another, and a bias of -inf where a query does not see a key. The random numbers are new in every
// run, and every instruction set in the build is tested.
#include <limits>

#include "op_fixture.h"

namespace tachy {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

class AttentionRanges : public AttentionFixture {
 protected:
  Tensor length(int32_t value) {
    const Tensor t = buffers_.emplace_back(4).tensor(DType::i32, {1});
    *t.as<int32_t>() = value;
    return t;
  }
  // Returns the same keys as one range, one after another, with -inf where the masks or a length say so.
  ops::AttentionArgs as_one(const ops::AttentionArgs& a) {
    const int64_t batch = a.q.dim(0), queries = a.q.dim(1), heads = a.q.dim(2), d = a.q.dim(3);
    int64_t keys = 0;
    for (int i = 0; i < a.ranges(); ++i) keys += a.range(i).k.dim(1);
    ops::AttentionArgs one{.q = a.q,
                           .k = blank({batch, keys, heads, d}),
                           .v = blank({batch, keys, heads, d}),
                           .bias = blank({heads, queries, keys}),
                           .scale = a.scale};
    int64_t first = 0;
    for (int i = 0; i < a.ranges(); ++i) {
      const ops::KeyRange r = a.range(i);
      const int64_t count = r.k.dim(1), there = r.length.defined() ? *r.length.as<int32_t>() : count;
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t j = 0; j < count; ++j)
          for (int64_t c = 0; c < heads * d; ++c) {
            at(one.k, b, first + j)[c] = at(r.k, b, j)[c];
            at(one.v, b, first + j)[c] = at(r.v, b, j)[c];
          }
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t q = 0; q < queries; ++q)
          for (int64_t j = 0; j < count; ++j) {
            const bool seen = j < there &&
                              (!r.causal || (q + r.causal_offset >= 0 &&
                                             j / r.causal_block <= (q + r.causal_offset) / r.causal_block)) &&
                              (r.window == 0 || j > q + r.causal_offset - r.window);
            at(one.bias, h, q)[first + j] = seen ? 0 : kNever;
          }
      first += count;
    }
    one.out = blank({batch, queries, heads, d}), one.lse = blank({batch, heads, queries});
    return one;
  }
  static float* at(const Tensor& t, int64_t a, int64_t b) {
    return t.as<float>() + a * t.stride(0) + b * t.stride(1);
  }
  void expect_same(ops::AttentionArgs args) {
    args.out = blank({args.q.dim(0), args.q.dim(1), args.q.dim(2), args.q.dim(3)});
    args.lse = blank({args.q.dim(0), args.q.dim(2), args.q.dim(1)});
    const ops::AttentionArgs one = as_one(args);
    run(one, "ref");
    for (const char* impl : {"ref", "cpu"}) {
      run(args, impl);
      expect_near(args, one, impl);
    }
  }
};

TEST_F(AttentionRanges, ACacheWhoseLengthIsInMemoryAndAChunk) {
  for (const int32_t cached : {0, 1, 77, 256, 300})
    expect_same({.q = random({2, 33, 3, 20}),
                 .k = random({2, 300, 3, 20}),
                 .v = random({2, 300, 3, 20}),
                 .length = length(cached),
                 .scale = 0.3f,
                 .more = {{.k = random({2, 40, 3, 20}), .v = random({2, 40, 3, 20}), .causal = true}}});
}

TEST_F(AttentionRanges, CausalMasksOfWholeBlocks) {
  for (const auto& [offset, block] :
       {std::pair(0, 1), std::pair(0, 16), std::pair(60, 50), std::pair(-20, 7)})
    expect_same({.q = random({1, 130, 2, 12}),
                 .k = random({1, 290, 2, 12}),
                 .v = random({1, 290, 2, 12}),
                 .scale = 0.3f,
                 .causal = true,
                 .causal_offset = offset,
                 .causal_block = block});
}

TEST_F(AttentionRanges, Windows) {
  for (const auto& [offset, window] :
       {std::pair(0, 1), std::pair(0, 40), std::pair(160, 200), std::pair(-30, 7), std::pair(290, 1000)})
    expect_same(
        {.q = random({1, 130, 2, 12}),
         .k = random({1, 290, 2, 12}),
         .v = random({1, 290, 2, 12}),
         .length = length(270),
         .scale = 0.3f,
         .causal = true,
         .causal_offset = offset,
         .window = window,
         .more = {
             {.k = random({1, 140, 2, 12}), .v = random({1, 140, 2, 12}), .causal = true, .window = 9}}});
}

TEST_F(AttentionRanges, AsManyAsThereMayBe) {
  const auto range = [&](int64_t keys) {
    return ops::KeyRange{.k = random({1, keys, 1, 40}), .v = random({1, keys, 1, 40})};
  };
  expect_same({.q = random({1, 17, 1, 40}),
               .k = random({1, 5, 1, 40}),
               .v = random({1, 5, 1, 40}),
               .scale = 0.2f,
               .more = {range(300), range(1), range(64)}});
  EXPECT_THROW(ops::KeyRanges({range(1), range(1), range(1), range(1)}), Error);
}

TEST_F(AttentionRanges, RefusesWhatDoesNotFit) {
  const Tensor q = random({1, 4, 1, 8}), k = random({1, 6, 1, 8});
  const auto code_of = [&](ops::AttentionArgs args) {
    args.q = q, args.k = k, args.v = k, args.out = blank({1, 4, 1, 8});
    try {
      run(args, nullptr);
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code_of({.length = length(7)}), ErrorCode::invalid_argument) << "beyond the keys";
  EXPECT_EQ(code_of({.length = length(-1)}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.causal_block = 2}), ErrorCode::invalid_argument) << "without causal";
  EXPECT_EQ(code_of({.window = 3}), ErrorCode::invalid_argument) << "without causal";
  EXPECT_EQ(code_of({.causal = true, .causal_block = 2, .window = 3}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.causal = true, .window = -1}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.causal = true, .causal_block = 7}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.bias = random({1, 4, 6}), .more = {{.k = k, .v = k}}}), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of({.more = {{.k = random({1, 6, 1, 4}), .v = k}}}), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tachy
