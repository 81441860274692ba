// Tests profiles: nesting, percentiles, shares, threads, the Chrome trace, and that no profiler means no
// effect.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "report/profile_report.h"
#include "report/rank_profile.h"

namespace tachy {
namespace {

using enum ProfileKind;

// Makes an event; start and end are in microseconds.
ProfileEvent event(const char* name, double start, double end, ProfileKind kind = other, int lane = 0) {
  return {name, kind, -1, lane, start, end};
}

const ProfileRow& row(const ProfileReport& report, const std::string& path) {
  for (const ProfileRow& r : report.rows)
    if (r.path == path) return r;
  throw std::runtime_error("no row " + path);
}

TEST(Profile, TreeSelfTimesAndShares) {
  const ProfileReport report =
      summarise({event("run", 0, 100, group), event("norm", 10, 20, norm), event("product", 20, 60, linear),
                 event("norm", 60, 90, norm), event("write", 100, 200, output)});
  EXPECT_DOUBLE_EQ(report.wall_us, 200);
  ASSERT_EQ(report.rows.size(), 4u);
  EXPECT_EQ(report.rows[0].path, "run");
  EXPECT_EQ(report.rows[1].path, "run/norm");
  EXPECT_EQ(report.rows[1].depth(), 1);
  EXPECT_EQ(report.rows[3].name(), "write");
  EXPECT_DOUBLE_EQ(row(report, "run").self_us, 20);
  EXPECT_DOUBLE_EQ(row(report, "run/norm").total_us, 40);
  EXPECT_EQ(row(report, "run/norm").count, 2);
  EXPECT_DOUBLE_EQ(row(report, "run/product").share, 0.2);
  EXPECT_DOUBLE_EQ(row(report, "write").share, 0.5);
  double kinds = 0;
  for (const auto& [kind, us] : report.by_kind) kinds += us;
  EXPECT_DOUBLE_EQ(kinds, 200) << "self times cover the whole";
  EXPECT_EQ(report.by_kind.front().first, output);
}

TEST(Profile, MeanMedianAndP95) {
  std::vector<ProfileEvent> events;
  for (int i = 0; i < 100; ++i) events.push_back(event("step", 1000 * i, 1000 * i + i + 1));
  const ProfileReport report = summarise(events);
  const ProfileRow& r = report.rows.at(0);
  EXPECT_EQ(r.count, 100);
  EXPECT_DOUBLE_EQ(r.mean_us, 50.5);
  EXPECT_DOUBLE_EQ(r.median_us, 50);
  EXPECT_DOUBLE_EQ(r.p95_us, 95);
}

TEST(Profile, LanesDoNotNestIntoEachOther) {
  const ProfileReport report = summarise(
      {event("decode", 0, 100), event("encode", 10, 20, output, 1), event("encode", 30, 50, output, 1)});
  EXPECT_EQ(row(report, "encode").count, 2);
  EXPECT_DOUBLE_EQ(row(report, "decode").self_us, 100);
}

TEST(Profile, HostProfilerRecordsNestedRangesOfEachThread) {
  HostProfiler profiler;
  {
    ProfileRange outer(&profiler, "outer", group);
    ProfileRange inner(&profiler, "first", norm, 3);
    inner.next("second", linear);
    inner.done();
    std::thread([&] { const ProfileRange other_thread(&profiler, "elsewhere", output); }).join();
    EXPECT_EQ(profiler.events().size(), 3u) << "open ranges are left out";
  }
  const auto events = profiler.events();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_STREQ(events[0].name, "outer");
  EXPECT_STREQ(events[1].name, "first");
  EXPECT_EQ(events[1].index, 3);
  EXPECT_LE(events[1].end_us, events[2].start_us);
  EXPECT_GE(events[0].end_us, events[2].end_us);
  EXPECT_EQ(events[3].lane, 1);
  const ProfileReport report = summarise(events);
  EXPECT_EQ(row(report, "outer/first").count, 1);
  EXPECT_EQ(row(report, "elsewhere").count, 1);
}

TEST(Profile, WithoutProfilerNothingHappens) {
  ProfileRange range(nullptr, "x", other);
  range.next("y", other);
  range.done();
  EXPECT_TRUE(summarise({}).rows.empty());
}

TEST(Profile, ChromeTrace) {
  HostProfiler profiler;
  { const ProfileRange range(&profiler, "block", group, 7); }
  const auto trace = nlohmann::json::parse(chrome_trace(profiler.events()));
  int complete = 0;
  for (const auto& e : trace.at("traceEvents")) {
    EXPECT_TRUE(e.contains("ph") && e.contains("pid") && e.contains("name"));
    if (e["ph"] != "X") continue;
    ++complete;
    EXPECT_EQ(e["name"], "block 7");
    EXPECT_EQ(e["cat"], "group");
    EXPECT_GE(e["dur"].get<double>(), 0);
    EXPECT_TRUE(e.contains("ts") && e.contains("tid"));
  }
  EXPECT_EQ(complete, 1);
}

// A GPU's profiler gives ranges by another clock, a parent after its children, on a separate track.
TEST(Profile, DeviceEventsAreATreeAndATrackOfTheirOwn) {
  RunProfiler profiler;
  { const ProfileRange range(&profiler, "step", group); }
  profiler.add_device_event({"norm", norm, -1, kDeviceLane, 100, 130});
  profiler.add_device_event({"product", linear, 2, kDeviceLane, 130, 190});
  profiler.add_device_event({"step", group, -1, kDeviceLane, 100, 200});
  const auto events = profiler.all_events();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_FALSE(on_device(events[0]));
  EXPECT_STREQ(events[1].name, "step") << "the parent first, though told last and begun in the same instant";
  const ProfileReport device = summarise(events, true);
  EXPECT_DOUBLE_EQ(device.wall_us, 100);
  EXPECT_DOUBLE_EQ(row(device, "step").self_us, 10);
  EXPECT_DOUBLE_EQ(row(device, "step/product").share, 0.6);
  EXPECT_EQ(summarise(events).rows.size(), 1u) << "the host's tree does not hold them";
  const auto tables = profile_tables(events);
  EXPECT_NE(tables.find("on the GPU"), std::string::npos);
  EXPECT_NE(tables.find("without CUDA graphs"), std::string::npos);
  EXPECT_EQ(profile_tables({event("a", 0, 1)}).find("GPU"), std::string::npos);
  const auto j = nlohmann::json::parse(profile_json(summarise(events), device));
  EXPECT_EQ(j["modules"].size(), 1u);
  EXPECT_EQ(j["device"]["modules"].size(), 3u);
  int on_gpu = 0;
  const auto trace = nlohmann::json::parse(chrome_trace(events));
  for (const auto& e : trace.at("traceEvents")) on_gpu += e["ph"] == "X" && e["pid"] == 2;
  EXPECT_EQ(on_gpu, 3);
}

// Two ranks with two passes each. The first pass is left out. The tables of the run itself are those of rank 0.
TEST(Profile, EachRankHasItsOwnTimes) {
  const auto pass = [](std::vector<ProfileEvent>& to, int lane, double at, double wait) {
    for (const ProfileEvent& e :
         {event("transformer", at, at + 100, group, lane), event("block", at, at + 90, group, lane),
          event("attention", at, at + 60 + wait, attention, lane),
          event("wait for ranks", at, at + wait, other, lane),
          event("product", at + 60 + wait, at + 80, linear, lane)})
      to.push_back(e);
  };
  for (const bool device : {false, true}) {
    const int first = device ? device_lane(4, 0) : 0, second = device ? device_lane(5, 1) : kRankLane + 1;
    std::vector<ProfileEvent> events{event("denoise", 0, 400, group, first)};
    pass(events, first, 0, 0), pass(events, first, 200, 2);
    pass(events, second, 0, 0), pass(events, second, 200, 12);
    EXPECT_EQ(rank_of(events.back()), 1);
    EXPECT_EQ(on_device(events.back()), device);
    const std::vector<RankProfile> ranks = rank_profiles(events);
    ASSERT_EQ(ranks.size(), 2u);
    for (size_t i = 0; i < 2; ++i) {
      const RankProfile& r = ranks[i];
      EXPECT_EQ(r.stage, "transformer");
      EXPECT_EQ(r.rank, static_cast<int>(i));
      EXPECT_EQ(r.passes, 1);
      EXPECT_DOUBLE_EQ(r.whole_us, 100);
      const double wait = i == 0 ? 2 : 12;
      std::map<std::string, double> parts;
      double all = 0;
      for (const RankPart& p : r.parts) parts[p.name] = p.us, all += p.us;
      EXPECT_DOUBLE_EQ(all, r.whole_us);
      EXPECT_DOUBLE_EQ(parts.at("attention/wait for ranks"), wait);
      EXPECT_DOUBLE_EQ(parts.at("attention"), 60);
      EXPECT_DOUBLE_EQ(parts.at("product"), 20 - wait);
      EXPECT_DOUBLE_EQ(parts.at("between"), 20);
    }
    EXPECT_EQ(row(summarise(events, device), "denoise/transformer").count, 2);
    EXPECT_EQ(row(summarise(events, device, 1), "transformer").count, 2);
    const std::string table = rank_table(events);
    EXPECT_NE(table.find("rank 1"), std::string::npos);
    EXPECT_NE(table.find("attention/wait for ranks"), std::string::npos);
    const auto json = nlohmann::json::parse(rank_json(events));
    EXPECT_EQ(json.at(1).at("rank"), 1);
    EXPECT_EQ(json.at(1).at("passes"), 1);
    std::erase_if(events, [](const ProfileEvent& e) { return rank_of(e) > 0; });
    EXPECT_EQ(rank_table(events), "") << "of one rank";
    EXPECT_EQ(rank_profiles(events).size(), 1u) << "to compare with";
  }
}

// Threads of a further rank come and go, and its ranges stay in one lane.
TEST(Profile, ARanksThreadsShareALane) {
  HostProfiler profiler;
  for (int i = 0; i < 2; ++i)
    std::thread([&] {
      const RankOfThread mine(3);
      const ProfileRange range(&profiler, "pass", group, i);
    }).join();
  const auto events = profiler.events();
  ASSERT_EQ(events.size(), 2u);
  for (const ProfileEvent& e : events) EXPECT_EQ(e.lane, kRankLane + 3);
}

}  // namespace
}  // namespace tachy
