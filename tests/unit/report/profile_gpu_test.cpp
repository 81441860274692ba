// Tests that on a GPU a profile's ranges are timed by the GPU's clock and nested as on the host, and that the
// profile holds nothing that is only captured. Skipped if there is no GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda/event_profiler.h"
#include "cuda/gpu.h"
#include "cuda/graph.h"
#include "report/profile_report.h"
#include "tensor/memory.h"

namespace tachy {
namespace {

TEST(ProfileOnGpu, RangesAreTimedByTheDevice) {
  std::string why;
  if (cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
  const auto gpu = cuda::open_gpu();
  const size_t bytes = size_t{256} << 20;
  const Buffer from(bytes, gpu.get()), to(bytes, gpu.get());
  gpu->fill(from.data(), 0x3c, bytes);
  const auto copy = [&](int times) {
    for (int i = 0; i < times; ++i) gpu->copy(to.data(), from.data(), bytes);
  };
  copy(3);
  RunProfiler run;
  constexpr int kRounds = 1500,
                kTries = 8;  // kRounds makes more ranges than are kept before earlier ones are read
  {
    cuda::EventProfiler profiler(*gpu, run, run);
    {
      ProfileRange outer(&profiler, "outer", ProfileKind::group);
      ProfileRange inner(&profiler, "one copy", ProfileKind::elementwise);
      copy(1);
      inner.next("eight copies", ProfileKind::other, 8);
      copy(8);
      for (int i = 1; i < kTries; ++i) {
        inner.next("one copy", ProfileKind::elementwise);
        copy(1);
        inner.next("eight copies", ProfileKind::other, 8);
        copy(8);
      }
      inner.done();
      const auto graph = cuda::capture(*gpu, [&] {
        const ProfileRange captured(&profiler, "captured", ProfileKind::other);
        copy(1);
      });
      graph->launch();
    }
    for (int i = 0; i < kRounds; ++i) {
      const ProfileRange a(&profiler, "a", ProfileKind::group);
      const ProfileRange b(&profiler, "b", ProfileKind::group);
      const ProfileRange c(&profiler, "c", ProfileKind::norm, i);
      gpu->fill(to.data(), i, 4096);
    }
    profiler.resolve();
  }
  const auto all = run.all_events();
  const ProfileReport device = summarise(all, true), host = summarise(all);
  const auto row = [](const ProfileReport& report, const std::string& path) {
    for (const ProfileRow& r : report.rows)
      if (r.path == path) return r;
    return ProfileRow{};
  };
  EXPECT_EQ(row(device, "a").count, kRounds);
  EXPECT_EQ(row(device, "a/b/c").count, kRounds) << "nested as on the host";
  EXPECT_EQ(row(host, "a/b/c").count, kRounds);
  EXPECT_EQ(row(host, "outer/captured").count, 1);
  EXPECT_EQ(row(device, "outer/captured").count, 0) << "a capture has no time on the device";
  const auto least = [&](const char* name) {  // another process may have the GPU for a while
    double us = INFINITY;
    for (const ProfileEvent& e : all)
      if (e.name == std::string(name) && on_device(e)) us = std::min(us, e.end_us - e.start_us);
    return us;
  };
  const double one = least("one copy"), eight = least("eight copies");
  EXPECT_GT(one, 50) << "512 MiB of traffic";
  EXPECT_GT(eight, 6 * one);
  EXPECT_LT(eight, 10 * one);
  EXPECT_EQ(row(device, "outer/eight copies").count, kTries);
  EXPECT_GE(row(device, "outer").total_us, kTries * (one + eight));
  EXPECT_LT(row(host, "outer/eight copies").total_us, row(device, "outer/eight copies").total_us)
      << "the host only queues";
  // The clocks agree if nothing ends on the device before the host began it.
  const auto start_of = [&](const char* name, bool device_side) {
    return std::find_if(all.begin(), all.end(),
                        [&](const ProfileEvent& e) {
                          return e.name == std::string(name) && on_device(e) == device_side;
                        })
        ->start_us;
  };
  EXPECT_GT(start_of("eight copies", true), start_of("eight copies", false) - 100);
}

}  // namespace
}  // namespace tachy
