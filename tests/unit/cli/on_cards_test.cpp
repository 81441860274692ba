// Tests jobs that run at once, one on each card: all are run, no card has two at a time, and an error ends them.
#include "cli/on_cards.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tachy::cli {
namespace {

TEST(OnCards, EachJobRunsOnceAndACardHasOneAtATime) {
  for (const size_t cards : {1, 2, 3, 8})
    for (const size_t jobs : {0, 1, 2, 5, 40}) {
      std::vector<std::atomic<int>> times(jobs), busy(cards);
      on_cards(cards, jobs, [&](size_t card, size_t job) {
        ASSERT_LT(card, cards);
        EXPECT_EQ(busy[card]++, 0);
        ++times[job];
        --busy[card];
      });
      for (size_t job = 0; job < jobs; ++job) EXPECT_EQ(times[job], 1) << cards << " cards, job " << job;
    }
}

// Each job waits until all have begun, so this ends only if every card has one.
TEST(OnCards, CardsWorkAtTheSameTime) {
  std::mutex mutex;
  std::condition_variable changed;
  size_t begun = 0;
  std::vector<size_t> cards(3);
  on_cards(3, 3, [&](size_t card, size_t job) {
    std::unique_lock lock(mutex);
    cards[job] = card, ++begun;
    changed.notify_all();
    changed.wait(lock, [&] { return begun == 3; });
  });
  EXPECT_EQ(cards[0] + cards[1] + cards[2], 3u);
}

TEST(OnCards, AfterAnErrorNoFurtherJobBeginsAndOthersEnd) {
  std::mutex mutex;
  std::condition_variable changed;
  bool failed = false;
  std::atomic<int> ended = 0, begun = 0;
  const auto run = [&](size_t, size_t job) {
    ++begun;
    std::unique_lock lock(mutex);
    if (job == 0) {
      failed = true;
      changed.notify_all();
      throw std::runtime_error("the first");
    }
    changed.wait(lock, [&] { return failed; });
    lock.unlock();
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20));  // the thread of the first may have been stopped in its throw
    ++ended;
  };
  try {
    on_cards(2, 100, run);
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "the first");
  }
  EXPECT_EQ(ended, begun - 1);
  EXPECT_LE(begun, 100 / 2) << "jobs went on after the error";
}

}  // namespace
}  // namespace tachy::cli
