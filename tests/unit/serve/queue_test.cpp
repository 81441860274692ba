// The messages that wait for a visitor are limited, the oldest are dropped first.
#include <gtest/gtest.h>

#include <thread>

#include "serve/outbox.h"

namespace tachy::serve {
namespace {

QueuedFrame frame(uint64_t sequence, uint64_t block) {
  return {.sequence = sequence, .block = block, .bytes = {1}};
}

TEST(PageFrameQueue, HoldsOneBlockAndDropsTheOlderOne) {
  FrameQueue queue;
  for (uint64_t i = 0; i < 4; ++i) queue.push(frame(i, 0));
  EXPECT_EQ(queue.size(), 4u);
  EXPECT_EQ(queue.pop()->sequence, 0u);
  queue.push(frame(4, 1));
  EXPECT_EQ(queue.size(), 1u) << "what was left of the older block is gone";
  EXPECT_EQ(queue.dropped(), 3u);
  queue.push(frame(5, 1));
  EXPECT_EQ(queue.pop()->sequence, 4u);
  EXPECT_EQ(queue.pop()->sequence, 5u);
  EXPECT_FALSE(queue.pop().has_value());
  for (uint64_t block = 2; block < 1000; ++block)
    for (uint64_t i = 0; i < 4; ++i) {
      queue.push(frame(block * 4 + i, block));
      ASSERT_LE(queue.size(), 4u);
    }
}

TEST(PageFrameQueue, TwoThreadsSeeFramesInTheirOrder) {
  FrameQueue queue;
  std::thread writer([&] {
    for (uint64_t i = 0; i < 20000; ++i) queue.push(frame(i, i / 4));
    queue.push(frame(20000, 5000));
  });
  uint64_t next = 0, taken = 0;
  while (next <= 20000)
    if (const auto got = queue.pop()) {
      ASSERT_GE(got->sequence, next);
      next = got->sequence + 1, ++taken;
    }
  writer.join();
  EXPECT_EQ(taken + queue.dropped(), 20001u);
}

TEST(PageOutbox, EventsThatNobodyReadsHaveAnEnd) {
  int woken = 0;
  Outbox outbox(20, [&] { ++woken; });
  for (int i = 0; i < 50; ++i) outbox.news(std::to_string(i));
  EXPECT_FALSE(outbox.overfull()) << "news are left out while others wait";
  EXPECT_EQ(woken, 8);
  for (int i = 0; i < 12; ++i) outbox.event("e");
  EXPECT_FALSE(outbox.overfull());
  outbox.event("e");
  EXPECT_TRUE(outbox.overfull());
  int events = 0;
  while (outbox.pop_event()) ++events;
  EXPECT_EQ(events, 20);
}

}  // namespace
}  // namespace tachy::serve
