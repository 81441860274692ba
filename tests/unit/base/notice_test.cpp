#include "base/notice.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/thread_pool.h"

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

// The pool's workers warn on behalf of the caller, who gets the warnings in its own thread, with an error or
// without.
TEST(LineScope, TakesTheLinesOfThePool) {
  ThreadPool pool(4);
  const auto here = std::this_thread::get_id();
  constexpr int64_t kTiles = 64;
  for (const bool fails : {false, true}) {
    std::set<std::string> lines;
    size_t calls = 0;
    const LineScope scope([&](std::string_view text) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      ++calls, lines.emplace(text);
      pool.run(2, [](int64_t, int) {});  // the workers are free again, or the work is done inline
    });
    std::atomic<int> others = 0;
    const auto body = [&](int64_t tile, int worker) {
      while (worker == 0 && others == 0) std::this_thread::yield();  // until another thread has a tile
      if (worker > 0) ++others;
      say_line(fmt::format("tile {}", tile));
      warn("`steps`: many");
      if (fails && tile == kTiles - 1) throw std::string("no");
    };
    if (fails)
      EXPECT_THROW(pool.run(kTiles, body), std::string);
    else
      pool.run(kTiles, body);
    EXPECT_EQ(lines.size(), kTiles + 1);
    EXPECT_EQ(calls, lines.size()) << "each once";
    EXPECT_GT(others, 0);
  }
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
