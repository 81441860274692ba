// Tests to which component of a block a profile's ranges add their own time, and the statistics over blocks.
#include "report/block_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "denoise/causal_denoiser.h"

namespace tachy {
namespace {

using testing::HasSubstr;

// Makes a block from 100 to 200 us with all that a block has, each with its time.
std::vector<ProfileEvent> a_block(double at, int64_t first, int lane = 0) {
  std::vector<ProfileEvent> out;
  const auto add = [&](const char* name, ProfileKind kind, double from, double to) {
    out.push_back({name, kind, -1, lane, at + from, at + to});
  };
  add(kBlockRange, ProfileKind::group, 0, 100);
  out.back().index = first;
  add("turn sinks", ProfileKind::cache, 0, 1);
  add("step", ProfileKind::group, 2, 70);
  add("transformer", ProfileKind::group, 2, 60);
  add("norm + modulate", ProfileKind::norm, 2, 4);
  add("block", ProfileKind::group, 4, 60);
  add("self-attention", ProfileKind::group, 4, 20);
  add("q, k, v", ProfileKind::linear, 4, 8);
  add("q, k norm + rope", ProfileKind::norm, 8, 9);
  add("keep keys, values", ProfileKind::cache, 9, 11);
  add("attention", ProfileKind::attention, 11, 20);
  add("cross-attention", ProfileKind::group, 20, 44);
  add("attention", ProfileKind::attention, 20, 24);
  add("actions", ProfileKind::group, 24, 40);
  add("keep keys, values", ProfileKind::cache, 30, 33);
  add("norm + modulate", ProfileKind::norm, 40, 44);
  add("feed-forward", ProfileKind::group, 44, 60);
  add("up + activation", ProfileKind::linear, 44, 56);
  add("gated residual + next norm", ProfileKind::norm, 56, 60);
  add("decode", ProfileKind::group, 70, 95);
  add("norm + silu", ProfileKind::norm, 70, 80);
  add("cache update", ProfileKind::cache, 80, 82);
  add("pixels", ProfileKind::elementwise, 82, 85);
  add("copy to host", ProfileKind::output, 85, 89);
  add("frames out", ProfileKind::output, 89, 90);
  return out;
}

double part(const BlockTime& b, BlockPart p) { return b.parts_us[static_cast<size_t>(p)]; }

TEST(BlockMonitor, EachRangesOwnTimeHasAComponent) {
  auto events = a_block(0, 0);
  const auto second = a_block(1000, 3);
  events.insert(events.end(), second.begin(), second.end());
  const std::vector<BlockTime> blocks = block_times(events);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[1].first, 3);
  for (const BlockTime& b : blocks) {
    EXPECT_DOUBLE_EQ(b.whole_us, 100);
    EXPECT_DOUBLE_EQ(b.first_frame_us, 89);
    EXPECT_DOUBLE_EQ(part(b, BlockPart::attention), 4 + 9 + 4);
    EXPECT_DOUBLE_EQ(part(b, BlockPart::norm), 2 + 1 + 4 + 4);
    EXPECT_DOUBLE_EQ(part(b, BlockPart::feed_forward), 12);
    EXPECT_DOUBLE_EQ(part(b, BlockPart::actions), 16 - 3);
    EXPECT_DOUBLE_EQ(part(b, BlockPart::cache), 1 + 2 + 3) << "the VAE's caches are its own affair";
    EXPECT_DOUBLE_EQ(part(b, BlockPart::decode), 25 - 5);
    EXPECT_DOUBLE_EQ(part(b, BlockPart::copy), 5);
    EXPECT_DOUBLE_EQ(part(b, BlockPart::encode), 0);
    double sum = 0;
    for (const double us : b.parts_us) sum += us;
    EXPECT_DOUBLE_EQ(sum, 100) << "other is what is left";
  }
}

TEST(BlockMonitor, WhatLiesOutsideOfBlocksIsNotTheirs) {
  std::vector<ProfileEvent> events = {{"text encoder", ProfileKind::group, -1, 0, 0, 50},
                                      {"attention", ProfileKind::attention, -1, 0, 10, 20}};
  EXPECT_TRUE(block_times(events).empty());
  EXPECT_EQ(block_table(events), "");
  const auto block = a_block(100, 0);
  events.insert(events.end(), block.begin(), block.end());
  events.push_back({"attention", ProfileKind::attention, -1, 0, 300, 400});
  events.push_back({"encode video", ProfileKind::output, -1, 1, 150, 190});  // these ranges are in another
                                                                             // thread
  const auto blocks = block_times(events);
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_DOUBLE_EQ(part(blocks[0], BlockPart::attention), 17);
  EXPECT_DOUBLE_EQ(part(blocks[0], BlockPart::encode), 40);
  EXPECT_DOUBLE_EQ(part(blocks[0], BlockPart::other), part(block_times(block)[0], BlockPart::other));
}

TEST(BlockMonitorOnGpu, ItsClockCounts) {
  auto events = a_block(0, 0);
  auto device = a_block(0, 0, kDeviceLane);
  for (ProfileEvent& e : device) e.start_us = 5 + 2 * e.start_us, e.end_us = 5 + 2 * e.end_us;
  events.insert(events.end(), device.begin(), device.end());
  const auto on_gpu = block_times(events, true);
  ASSERT_EQ(on_gpu.size(), 1u);
  EXPECT_DOUBLE_EQ(on_gpu[0].whole_us, 200);
  EXPECT_DOUBLE_EQ(part(on_gpu[0], BlockPart::feed_forward), 24);
  EXPECT_DOUBLE_EQ(on_gpu[0].first_frame_us, 89) << "frames are with the host by its own clock";
  EXPECT_THAT(block_table(events), HasSubstr("GPU's clock"));
}

TEST(BlockMonitor, MeanMedianAndP95) {
  std::vector<double> times;
  for (int i = 1; i <= 100; ++i) times.push_back(101 - i);
  const TimeSummary t = summarise_times(times);
  EXPECT_DOUBLE_EQ(t.mean, 50.5);
  EXPECT_DOUBLE_EQ(t.median, 50);
  EXPECT_DOUBLE_EQ(t.p95, 95);
  EXPECT_DOUBLE_EQ(summarise_times({7}).p95, 7);
}

}  // namespace
}  // namespace tachy
