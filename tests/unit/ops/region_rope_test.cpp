// Tests properties besides the numbers that callers of region_rope rely on: clear errors, regions without
// keys, NaN that is not lost. The op runner's cases and golden_ops_test.cpp check the values.
#include "ops/region_rope/region_rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tachy {
namespace {

using testing::HasSubstr;

struct Case {
  explicit Case(int64_t tokens)
      : tokens(tokens),
        shares(static_cast<size_t>(tokens * 4)),
        tables(static_cast<size_t>(2 * tokens * 2)) {}
  ops::RegionRopeArgs args() {
    return {.shares = Tensor(shares.data(), DType::f32, {tokens, 1, 4}),
            .sizes = Tensor(sizes, DType::f32, {3}),
            .cos = Tensor(tables.data(), DType::f32, {tokens, 2}),
            .sin = Tensor(tables.data() + 2 * tokens, DType::f32, {tokens, 2})};
  }
  // Returns the place of token t: the angle of its first pair, which equals the place.
  double place(int64_t t) const {
    return std::atan2(tables[static_cast<size_t>(2 * tokens + 2 * t)], tables[static_cast<size_t>(2 * t)]);
  }
  static double turned(double place) { return std::remainder(place, 2 * M_PI); }

  int64_t tokens;
  std::vector<float> shares, tables;
  float sizes[3] = {1, 1, 1};
  ThreadPool pool{2};
  Arena arena{1 << 20};
  Stream stream{.arena = &arena, .pool = &pool};
};

TEST(RegionRope, PlacesAreThoseOfTheRegionLookedAtMost) {
  Case c(4);  // the first speaker, with least and most of all; the second; the background
  c.shares = {0.4f, 0.1f, 0.1f, 9, 0.8f, 0.1f, 0.1f, 9, 0.1f, 0.5f, 0.4f, 9, 0.2f, 0.2f, 0.6f, 9};
  ops::region_rope(c.args(), c.stream);
  EXPECT_NEAR(c.place(0), Case::turned(4 * 0.3 / 0.7), 1e-5);
  EXPECT_NEAR(c.place(1), Case::turned(4), 1e-5);
  EXPECT_NEAR(c.place(2), Case::turned(24), 1e-5);
  EXPECT_NEAR(c.place(3), Case::turned(12), 1e-5);
}

TEST(RegionRope, ARegionWithoutKeysIsNotLookedAt) {
  Case c(2);
  c.sizes[2] = 0;
  c.shares = {0.2f, 0.1f, 0.7f, 0, 0.3f, 0.6f, 0.1f, 0};
  ops::region_rope(c.args(), c.stream);
  EXPECT_NEAR(c.place(0), 0, 1e-5);
  EXPECT_NEAR(c.place(1), Case::turned(24), 1e-5);
}

TEST(RegionRope, NaNStaysWithItsToken) {
  Case c(3);
  c.shares = {0.4f, 0.1f, 0.1f, 0, NAN, NAN, NAN, 0, 0.1f, 0.1f, 0.6f, 0};
  ops::region_rope(c.args(), c.stream);
  EXPECT_TRUE(std::isfinite(c.place(0)));
  EXPECT_TRUE(std::isnan(c.place(1)));
  EXPECT_NEAR(c.place(2), Case::turned(12), 1e-5);
}

TEST(RegionRope, ErrorsSayWhatWasExpected) {
  const auto refusal = [](const std::function<void(ops::RegionRopeArgs&)>& change) -> std::string {
    Case c(2);
    ops::RegionRopeArgs args = c.args();
    change(args);
    try {
      ops::region_rope(args, c.stream);
    } catch (const Error& e) {
      return e.message();
    }
    return "";
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_THAT(refusal([](auto& a) { a.shares = a.shares.slice(2, 0, 2); }), HasSubstr("at least 3"));
  EXPECT_THAT(refusal([](auto& a) { a.sizes = a.sizes.slice(0, 0, 2); }), HasSubstr("sizes"));
  EXPECT_THAT(refusal([](auto& a) { a.cos = a.cos.slice(0, 0, 1); }), HasSubstr("cos"));
  EXPECT_THAT(refusal([](auto& a) { a.sin = a.sin.slice(1, 0, 1); }), HasSubstr("sin"));
}

}  // namespace
}  // namespace tachy
