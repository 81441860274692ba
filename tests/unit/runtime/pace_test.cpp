// Tests into which calls attention is divided: where calls are long, a rank with an even part of the heads makes
// calls of as many heads as one that has all.
#include "runtime/pace.h"

#include <gtest/gtest.h>

namespace tachy::runtime {
namespace {

TEST(HeadsOfALongCall, AreThoseOfOneRankForEveryPowerOfTwo) {
  for (const int64_t heads : {12, 24, 40, 16, 30})
    for (const double flops : {7e11, 2e12, 4e13}) {
      const int64_t all = heads_of_a_long_call(heads, flops);
      ASSERT_GT(all, 0);
      EXPECT_EQ(heads % all, 0);
      for (int64_t ranks = 2; heads % (ranks * all) == 0; ranks *= 2)
        EXPECT_EQ(heads_of_a_long_call(heads / ranks, flops), all)
            << heads << " heads, " << ranks << " ranks";
    }
}

TEST(HeadsOfALongCall, AreSeveralWhereOneIsShort) {
  EXPECT_EQ(heads_of_a_long_call(40, 4.8e11), 5);
  EXPECT_EQ(heads_of_a_long_call(16, 2e11), 4);
  EXPECT_EQ(heads_of_a_long_call(12, 2e11), 3);
  EXPECT_EQ(heads_of_a_long_call(12, 1e11), 6);
}

TEST(HeadsOfALongCall, AreNoneWhereAllAreShort) {
  EXPECT_EQ(heads_of_a_long_call(12, 1e9), 0);
  EXPECT_EQ(heads_of_a_long_call(1, 1e9), 0);
  EXPECT_EQ(heads_of_a_long_call(0, 1e15), 0);
}

}  // namespace
}  // namespace tachy::runtime
