// Tests sequences whose tokens lie on several ranks: cut anywhere or by places of frames, with keys that go round,
// and the merging of softmaxes that this needs.
#include "runtime/spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/attention/attention.h"
#include "ops/merge_softmax/merge_softmax.h"
#include "runtime/attend_by_heads.h"
#include "runtime/rank_team.h"

namespace tachy {
namespace {

using runtime::Comm;
using runtime::Spread;

struct HostPlace {
  ThreadPool pool{1};
  Arena arena{size_t{8} << 20};
  Stream stream{.arena = &arena, .pool = &pool};
};

std::vector<float> waves(int64_t count, float step) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = std::sin(static_cast<float>(i) * step);
  return out;
}

std::vector<float> values_of(const Tensor& t) {
  EXPECT_TRUE(t.contiguous());
  return {t.as<float>(), t.as<float>() + t.numel()};
}

void on_ranks_of(int ranks, const std::function<void(Comm&)>& body) {
  runtime::RankTeam(ranks, ranks).run({.groups = 1, .per_group = ranks}, [&](int, Comm& comm) {
    body(comm);
  });
}

TEST(Spread, PartsComeTogetherAgain) {
  constexpr int64_t kBatch = 2, kTokens = 30, kWidth = 3;
  std::vector<float> all = waves(kBatch * kTokens * kWidth, 0.3f);
  const Tensor whole(all.data(), DType::f32, {kBatch, kTokens, kWidth});
  for (const int ranks : {1, 2, 4, 5})
    for (const int64_t frames : {1, 3, 6})
      on_ranks_of(ranks, [&](Comm& comm) {
        HostPlace p;
        const Spread spread{.tokens = kTokens, .frames = frames};
        const Tensor own = own_tokens(&comm, spread, whole, p.stream);
        EXPECT_EQ(own.dim(1), spread.tokens_of(comm.rank(), ranks));
        // The first token of a rank's second frame follows in the whole sequence a frame after its first one.
        if (ranks > 1 && frames > 1) {
          const runtime::Share places = spread.places_of(comm.rank(), ranks);
          EXPECT_EQ(own.as<float>()[places.count() * kWidth],
                    all[static_cast<size_t>((spread.places() + places.first) * kWidth)]);
        }
        EXPECT_EQ(values_of(tokens_on_all(comm, spread, own, p.stream)), all);
        const Tensor first = tokens_on_first(comm, spread, own, p.stream);
        EXPECT_EQ(first.defined(), comm.rank() == 0);
        if (first.defined()) EXPECT_EQ(values_of(first), all);
      });
}

constexpr int64_t kBatch = 2, kTokens = 24, kHeads = 4, kDim = 8;

void attend(const runtime::HeadTensors& t, Stream& stream) {
  ops::attention({.q = t.q, .k = t.k, .v = t.v, .scale = 0.3f, .out = t.out, .lse = t.lse}, stream);
}

// Attends to all tokens of q, k and v, which are waves. Returns the result of one rank; several ranks' results
// are compared with `want`.
std::vector<float> attended(const Spread& spread, int ranks, const std::vector<float>* want, double bound) {
  std::vector<float> qkv[3], whole(static_cast<size_t>(kBatch * kTokens * kHeads * kDim));
  for (int i = 0; i < 3; ++i)
    qkv[i] = waves(kBatch * kTokens * kHeads * kDim, 0.7f + 0.31f * static_cast<float>(i));
  const auto rows = [](std::vector<float>& v) {
    return Tensor(v.data(), DType::f32, {kBatch, kTokens, kHeads * kDim});
  };
  const auto heads = [](const Tensor& t) { return t.view({kBatch, -1, kHeads, kDim}); };
  if (ranks == 1) {
    HostPlace p;
    attend({heads(rows(qkv[0])), heads(rows(qkv[1])), heads(rows(qkv[2])), heads(rows(whole))}, p.stream);
    return whole;
  }
  on_ranks_of(ranks, [&](Comm& comm) {
    HostPlace p;
    Tensor own[3], out = p.arena.f32({kBatch, spread.tokens_of(comm.rank(), ranks), kHeads * kDim});
    for (int i = 0; i < 3; ++i) own[i] = own_tokens(&comm, spread, rows(qkv[i]), p.stream);
    std::fill_n(out.as<float>(), out.numel(), NAN);
    runtime::attend_by_heads(&comm, spread, {heads(own[0]), heads(own[1]), heads(own[2]), heads(out)},
                             p.stream, [&](const runtime::HeadTensors& t) { attend(t, p.stream); });
    std::vector<float> expected = *want;
    const std::vector<float> part = values_of(own_tokens(&comm, spread, rows(expected), p.stream)),
                             got = values_of(out);
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_LE(std::abs(double{got[i]} - double{part[i]}), bound)
          << comm.rank() << " of " << ranks << ", ring " << spread.ring << ", " << spread.frames << " frames";
  });
  return {};
}

TEST(AttendByHeads, TokensMayBeCutByPlacesOfFrames) {
  const std::vector<float> one = attended({.tokens = kTokens}, 1, nullptr, 0);
  for (const int ranks : {2, 3, 5})
    for (const int64_t frames : {2, 4}) attended({.tokens = kTokens, .frames = frames}, ranks, &one, 0);
}

TEST(AttendByHeads, KeysMayGoRound) {
  const std::vector<float> one = attended({.tokens = kTokens}, 1, nullptr, 0);
  for (const int ring : {2, 3, 4})
    for (const int ulysses : {1, 2, 5})  // with five, one rank has no heads
      attended({.tokens = kTokens, .ring = ring}, ring * ulysses, &one, 2e-6);
  attended({.tokens = kTokens, .frames = 2, .ring = 2}, 4, &one, 2e-6);
}

// Softmaxes over a part of the keys each are merged into that over all keys.
TEST(MergeSoftmax, IsTheSoftmaxOfAllKeys) {
  constexpr int64_t kKeys = 17, kQueries = 5;
  std::vector<float> q = waves(kBatch * kQueries * kHeads * kDim, 0.9f),
                     k = waves(kBatch * kKeys * kHeads * kDim, 1.7f),
                     v = waves(kBatch * kKeys * kHeads * kDim, 0.6f);
  const auto four = [](std::vector<float>& x, int64_t n) {
    return Tensor(x.data(), DType::f32, {kBatch, n, kHeads, kDim});
  };
  HostPlace p;
  const auto over = [&](int64_t first, int64_t end) {
    const runtime::HeadTensors t{
        four(q, kQueries), four(k, kKeys).slice(1, first, end), four(v, kKeys).slice(1, first, end),
        p.arena.f32({kBatch, kQueries, kHeads, kDim}), p.arena.f32({kBatch, kHeads, kQueries})};
    attend(t, p.stream);
    return t;
  };
  const runtime::HeadTensors all = over(0, kKeys), early = over(0, 3), late = over(3, kKeys);
  ops::merge_softmax({.x = early.out, .x_lse = early.lse, .y = late.out, .y_lse = late.lse}, p.stream);
  for (int64_t i = 0; i < all.out.numel(); ++i)
    EXPECT_NEAR(late.out.as<float>()[i], all.out.as<float>()[i], 1e-6);
  for (int64_t i = 0; i < all.lse.numel(); ++i)
    EXPECT_NEAR(late.lse.as<float>()[i], all.lse.as<float>()[i], 1e-6);
}

TEST(MergeSoftmax, NoKeysChangeNothing) {
  const float none = -std::numeric_limits<float>::infinity();
  for (const bool both : {false, true}) {
    HostPlace p;
    float x = 0, y = both ? 0.0f : 5.0f, x_lse = none, y_lse = both ? none : 2.0f;
    ops::merge_softmax({.x = Tensor(&x, DType::f32, {1, 1, 1, 1}),
                        .x_lse = Tensor(&x_lse, DType::f32, {1, 1, 1}),
                        .y = Tensor(&y, DType::f32, {1, 1, 1, 1}),
                        .y_lse = Tensor(&y_lse, DType::f32, {1, 1, 1})},
                       p.stream);
    EXPECT_EQ(y, both ? 0.0f : 5.0f);
    EXPECT_EQ(y_lse, both ? none : 2.0f);
  }
}

TEST(MergeSoftmax, WrongShapesAreToldByName) {
  HostPlace p;
  const Tensor x = p.arena.f32({1, 4, 2, 3}), lse = p.arena.f32({1, 2, 4});
  const auto told = [&](const ops::MergeSoftmaxArgs& args) {
    try {
      ops::merge_softmax(args, p.stream);
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("nothing");
  };
  EXPECT_THAT(told({.x = x, .x_lse = lse, .y = p.arena.f32({1, 4, 2, 2}), .y_lse = lse}),
              testing::HasSubstr("y"));
  EXPECT_THAT(told({.x = x, .x_lse = p.arena.f32({1, 4, 2}), .y = x, .y_lse = lse}),
              testing::HasSubstr("x_lse"));
}

}  // namespace
}  // namespace tachy
