// Tests environment strings and the small text helpers.
#include "base/env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tachy {
namespace {

TEST(CountOf, OneIsSingular) {
  EXPECT_EQ(count_of(1, "frame"), "1 frame");
  EXPECT_EQ(count_of(0, "frame"), "0 frames");
  EXPECT_EQ(count_of(5, "thread"), "5 threads");
}

TEST(Env, StringWithFallback) {
  unsetenv("TACHY_TEST_VALUE");
  EXPECT_EQ(env_string("TACHY_TEST_VALUE", "none"), "none");
  setenv("TACHY_TEST_VALUE", "attention:ref", 1);
  EXPECT_EQ(env_string("TACHY_TEST_VALUE", "none"), "attention:ref");
  setenv("TACHY_TEST_VALUE", "", 1);
  EXPECT_EQ(env_string("TACHY_TEST_VALUE", "none"), "");
  unsetenv("TACHY_TEST_VALUE");
}

TEST(Env, SplitDropsEmptyParts) {
  EXPECT_THAT(split("a,b,,c,", ','), testing::ElementsAre("a", "b", "c"));
  EXPECT_THAT(split("one", ','), testing::ElementsAre("one"));
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_TRUE(split(",,", ',').empty());
}

TEST(Env, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(1420000000), "1.42 GB");
  EXPECT_EQ(human_bytes(28600000000), "28.6 GB");
  EXPECT_EQ(human_bytes(999900), "1.00 MB");
}

TEST(Env, HumanSeconds) {
  EXPECT_EQ(human_seconds(0.42), "0.42 s");
  EXPECT_EQ(human_seconds(42), "42 s");
  EXPECT_EQ(human_seconds(200), "3 min 20 s");
  EXPECT_EQ(human_seconds(7500), "2 h 05 min");
  EXPECT_EQ(human_seconds(-1), "?");
}

}  // namespace
}  // namespace tachy
