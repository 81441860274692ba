// Attention over lists of key blocks is compared with the definition over all keys, with a bias of -inf for
// blocks that a list does not have. The random numbers are new in every run.
#include <limits>
#include <numeric>

#include "op_fixture.h"
#include "ops/attention/attention_backward.h"

namespace tachy {
namespace {

using Lists = std::vector<std::vector<int32_t>>;  // [B or 1, H, blocks of queries]

class AttentionBlocks : public AttentionFixture {
 protected:
  ops::AttentionArgs inputs(int64_t b, int64_t lq, int64_t lk, int64_t h, int64_t d) {
    return outputs({.q = random({b, lq, h, d}),
                    .k = random({b, lk, h, d}),
                    .v = random({b, lk, h, d}),
                    .scale = 1.5f / std::sqrt(static_cast<float>(d))});
  }
  ops::AttentionArgs outputs(ops::AttentionArgs a) {
    const int64_t b = a.q.dim(0), lq = a.q.dim(1), h = a.q.dim(2);
    a.out = blank(DType::f32, {b, lq, h, a.q.dim(3)}), a.lse = blank(DType::f32, {b, h, lq});
    return a;
  }
  ops::BlockLists tensors(const Lists& lists, int64_t batch, int64_t heads, int64_t capacity) {
    const auto queries = static_cast<int64_t>(lists.size()) / batch / heads;
    const Tensor indices = blank(DType::i32, {batch, heads, queries, capacity}),
                 counts = blank(DType::i32, {batch, heads, queries});
    std::fill_n(indices.as<int32_t>(), indices.numel(), -1);  // nothing reads after a list's end
    for (size_t i = 0; i < lists.size(); ++i) {
      counts.as<int32_t>()[i] = static_cast<int32_t>(lists[i].size());
      std::copy(lists[i].begin(), lists[i].end(), indices.as<int32_t>() + static_cast<int64_t>(i) * capacity);
    }
    return {indices, counts};
  }
  // Draws each block with probability `share`, in any order.
  Lists draw(int64_t count, int64_t blocks, double share) {
    Lists lists(static_cast<size_t>(count));
    for (auto& list : lists) {
      for (int32_t j = 0; j < blocks; ++j)
        if (std::bernoulli_distribution(share)(engine_)) list.push_back(j);
      std::shuffle(list.begin(), list.end(), engine_);
    }
    return lists;
  }
  // Returns the arguments for all keys, with a mask over those that the lists of the first batch entry do not
  // have.
  ops::AttentionArgs masked(const ops::AttentionArgs& a, const Lists& lists) {
    ops::AttentionArgs dense = outputs(a);
    const int64_t h = a.q.dim(2), lq = a.q.dim(1), lk = a.k.dim(1), queries = (lq + 127) / 128;
    dense.blocks = {}, dense.bias = blank(DType::f32, {h, lq, lk});
    for (int64_t i = 0; i < h * lq; ++i) {
      float* row = dense.bias.as<float>() + i * lk;
      std::fill_n(row, lk, -std::numeric_limits<float>::infinity());
      for (const int32_t block : lists[static_cast<size_t>(i / lq * queries + i % lq / 128)])
        std::fill(row + block * 128, row + std::min<int64_t>(lk, block * 128 + 128), 0.0f);
    }
    return dense;
  }
};

TEST_F(AttentionBlocks, AreAMaskOfTheOtherBlocks) {
  for (const auto& [lq, lk, share] :
       {std::tuple(300, 700, 0.5), std::tuple(128, 640, 0.3), std::tuple(5, 9, 1.0), std::tuple(1, 129, 0.5),
        std::tuple(257, 128, 0.7)}) {
    const int64_t h = 3, queries = (lq + 127) / 128, keys = (lk + 127) / 128;
    ops::AttentionArgs a = inputs(2, lq, lk, h, 20);
    Lists lists = draw(h * queries, keys, share);
    lists[0].clear();  // an empty list gives zeros
    a.blocks = tensors(lists, 1, h, keys + 2);
    const ops::AttentionArgs dense = masked(a, lists);
    run(dense, "ref");
    for (const char* impl : {"ref", "cpu"}) {
      run(a, impl);
      expect_near(a, dense, impl);
      EXPECT_EQ(a.out.as<float>()[0], 0.0f);
      EXPECT_EQ(a.lse.as<float>()[0], -std::numeric_limits<float>::infinity());
    }
  }
}

TEST_F(AttentionBlocks, EachEntryOfABatchMayHaveItsOwn) {
  const int64_t h = 2, queries = 2, keys = 4;
  ops::AttentionArgs a = inputs(2, 200, 500, h, 16);
  const Lists lists = draw(2 * h * queries, keys, 0.5);
  a.blocks = tensors(lists, 2, h, keys);
  run(a, "cpu");
  for (int64_t b = 0; b < 2; ++b) {
    ops::AttentionArgs one = a;
    for (Tensor* t : {&one.q, &one.k, &one.v, &one.out, &one.lse}) *t = t->slice(0, b, b + 1);
    const auto begin = lists.begin() + b * h * queries;
    ops::AttentionArgs dense = masked(one, Lists(begin, begin + h * queries));
    run(dense, "ref");
    for (int64_t i = 0; i < dense.out.numel(); ++i)
      ASSERT_NEAR(one.out.as<float>()[i], dense.out.as<float>()[i], 3e-6) << "entry " << b << ", value " << i;
  }
}

TEST_F(AttentionBlocks, AllOfThemAreDenseAttention) {
  ops::AttentionArgs a = inputs(1, 333, 1000, 2, 64);
  const ops::AttentionArgs dense = outputs(a);
  a.blocks = tensors(draw(2 * 3, 8, 1), 1, 2, 8);
  run(a, "cpu"), run(dense, "cpu");
  expect_near(a, dense, "cpu");
}

TEST_F(AttentionBlocks, OneThatIsListedTwiceCountsTwice) {
  ops::AttentionArgs once = inputs(1, 100, 256, 1, 16), twice = once;
  twice = outputs(twice);
  once.blocks = tensors({{0, 1}}, 1, 1, 2), twice.blocks = tensors({{1, 0, 0, 1}}, 1, 1, 4);
  run(once, "ref");
  for (int64_t i = 0; i < once.lse.numel(); ++i) once.lse.as<float>()[i] += std::log(2.0f);
  for (const char* impl : {"ref", "cpu"}) {
    run(twice, impl);
    expect_near(twice, once, impl);
  }
}

TEST_F(AttentionBlocks, RefusesWhatDoesNotFit) {
  const ops::AttentionArgs good = inputs(2, 140, 300, 2, 8);
  const auto error_of = [&](const std::function<void(ops::AttentionArgs&)>& change) -> std::string {
    ops::AttentionArgs a = good;
    a.blocks = tensors(Lists(4, {0, 2}), 1, 2, 3);
    change(a);
    try {
      run(a, nullptr);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      return e.message();
    }
    return "no error";
  };
  const auto first = [](const Tensor& t) -> int32_t& { return t.as<int32_t>()[0]; };
  EXPECT_EQ(error_of([](auto&) {}), "no error");
  EXPECT_EQ(error_of([&](auto& a) { first(a.blocks.indices) = 3; }),
            "attention: expected indices[0, 0, 0] in [0, 3), got 3");
  EXPECT_NE(error_of([&](auto& a) { first(a.blocks.indices) = -1; }), "no error");
  EXPECT_EQ(error_of([&](auto& a) { first(a.blocks.counts) = 4; }),
            "attention: expected counts[0, 0, 0] in [0, 3], got 4");
  EXPECT_NE(error_of([&](auto& a) { first(a.blocks.counts) = -1; }), "no error");
  EXPECT_NE(error_of([&](auto& a) { a.blocks.counts = {}; }), "no error");
  EXPECT_NE(error_of([&](auto& a) { a.blocks = tensors(Lists(2, {0}), 1, 2, 1); }), "no error") << "queries";
  EXPECT_NE(error_of([&](auto& a) { a.blocks = tensors(Lists(12, {0}), 3, 2, 1); }), "no error") << "batch";
  EXPECT_NE(error_of([&](auto& a) { a.causal = true; }), "no error");
  EXPECT_NE(error_of([&](auto& a) { a.bias = random({2, 140, 300}); }), "no error");
  EXPECT_NE(error_of([&](auto& a) { a.key_bias = random({2, 300}); }), "no error");
  EXPECT_NE(error_of([&](auto& a) { a.more = {{.k = a.k, .v = a.v}}; }), "no error");

  ops::AttentionBackwardArgs back{.forward = good};
  back.forward.blocks = tensors(Lists(4, {0, 2}), 1, 2, 3);
  back.dout = back.dq = good.out, back.dk = good.k, back.dv = good.v;
  Arena arena(1 << 24);
  Stream stream{.arena = &arena, .pool = &pool_};
  EXPECT_THROW(ops::attention_backward(back, stream), Error);
}

}  // namespace
}  // namespace tachy
