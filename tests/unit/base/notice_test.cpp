#include "base/notice.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/log.h"

namespace tachy {
namespace {

using Lines = std::vector<std::string>;

TEST(LineScope, TakesTheLinesOfItsThreadEachOnce) {
  Lines outer, inner, other;
  {
    const LineScope scope([&](std::string_view text) { outer.emplace_back(text); });
    warn("`steps`: {} are many", 1000);
    warn("`steps`: {} are many", 1000);
    {
      const LineScope within([&](std::string_view text) {
        inner.emplace_back(text);
        say_line("said inside");  // goes to the scope around this one
      });
      warn("`steps`: {} are many", 1000);
    }
    std::thread([&] {
      const LineScope theirs([&](std::string_view text) { other.emplace_back(text); });
      say_line("in another thread");
    }).join();
    say_line("the last");
  }
  EXPECT_EQ(outer, (Lines{"warning: `steps`: 1000 are many", "said inside", "the last"}));
  EXPECT_EQ(inner, Lines{"warning: `steps`: 1000 are many"});
  EXPECT_EQ(other, Lines{"in another thread"});
}

TEST(LineScope, WhatThrowsLeavesItInPlace) {
  int calls = 0;
  const LineScope scope([&](std::string_view) {
    if (++calls == 1) throw std::string("no");
  });
  EXPECT_THROW(say_line("one"), std::string);
  say_line("two");
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace tachy
