// A token bucket lets a burst through and then its rate.
#include "http/rate_limit.h"

#include <gtest/gtest.h>

namespace tachy::http {
namespace {

using namespace std::chrono_literals;

TEST(RateLimitTest, LetsABurstThroughAndThenTheRate) {
  const auto begin = RateLimit::Clock::now();
  RateLimit rate(10, 5, begin);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(rate.take(begin), RateLimit::Clock::duration::zero());
  const auto wait = rate.take(begin);
  EXPECT_NEAR(std::chrono::duration<double>(wait).count(), 0.1, 1e-6);
  auto now = begin + wait;
  EXPECT_GT(rate.take(now), 90ms) << "the one that waited has used up what came meanwhile";
  now += 1000s;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(rate.take(now), RateLimit::Clock::duration::zero());
  EXPECT_GT(rate.take(now), 0ms) << "no more than the burst is saved up";
}

TEST(RateLimitTest, AClockThatStandsStillGivesNothing) {
  const auto begin = RateLimit::Clock::now();
  RateLimit rate(10, 1, begin);
  rate.take(begin);
  EXPECT_GT(rate.take(begin - 5s), 0ms);
}

}  // namespace
}  // namespace tachy::http
