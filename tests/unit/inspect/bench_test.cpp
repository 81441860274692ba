// Tests the roofline's arithmetic, reports as JSON, and verdicts that take noise into account.
#include "inspect/bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tachy {
namespace {

BenchReport report_of(std::initializer_list<BenchLine> lines) {
  BenchReport r{.version = "1", .level = "safe", .threads = 2};
  r.machine.cpu = "a CPU";
  r.all = {.threads = 2, .f32_gflops = 100, .copies = {{1e6, 40}, {1e8, 10}}};
  r.lines = lines;
  return r;
}

Verdict verdict_of(double before, double before_spread, double after, double after_spread) {
  return compare_bench(report_of({{.id = "x", .median_us = before, .spread = before_spread}}),
                       report_of({{.id = "x", .median_us = after, .spread = after_spread}}))
      .at(0)
      .verdict;
}

TEST(Bench, VerdictsAreAwareOfNoise) {
  EXPECT_EQ(verdict_of(100, 0.001, 104, 0.001), Verdict::same) << "within 5 %";
  EXPECT_EQ(verdict_of(100, 0.001, 106, 0.001), Verdict::slower);
  EXPECT_EQ(verdict_of(100, 0.001, 94, 0.001), Verdict::faster);
  EXPECT_EQ(verdict_of(100, 0.05, 110, 0.001), Verdict::same) << "the first run was noisy";
  EXPECT_EQ(verdict_of(100, 0.001, 110, 0.05), Verdict::same) << "the second run was noisy";
  EXPECT_EQ(verdict_of(100, 0.05, 130, 0.05), Verdict::slower) << "more than three times the noise";
}

TEST(Bench, LinesWithoutCounterpart) {
  const auto lines = compare_bench(report_of({{.id = "a", .median_us = 1}, {.id = "b", .median_us = 2}}),
                                   report_of({{.id = "b", .median_us = 2}, {.id = "c", .median_us = 3}}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].verdict, Verdict::same);
  EXPECT_EQ(lines[1].verdict, Verdict::added);
  EXPECT_EQ(lines[2].verdict, Verdict::gone);
  EXPECT_EQ(lines[2].id, "a");
}

TEST(Bench, RooflineTakesTheTighterLimit) {
  const cpu::Roofline r = report_of({}).all;
  EXPECT_DOUBLE_EQ(r.copy_gb_per_s(10), 40) << "below the smallest size";
  EXPECT_DOUBLE_EQ(r.copy_gb_per_s(1e9), 10) << "above the largest";
  EXPECT_NEAR(r.copy_gb_per_s(1e7), 20, 1e-9) << "half way between, on logarithmic scales";
  EXPECT_DOUBLE_EQ(r.seconds(1e9, 0, false), 0.1);
  EXPECT_DOUBLE_EQ(r.seconds(0, 1e11, false), 1);
  EXPECT_DOUBLE_EQ(r.seconds(1e9, 1e11, true), 1) << "no bf16 here: float32 is the limit";
}

TEST(Bench, MeasuredRooflineIsPlausible) {
  ThreadPool one(1);
  const cpu::Roofline r = cpu::measure_roofline(one);
  EXPECT_GT(r.f32_gflops, 0.1);
  EXPECT_LT(r.f32_gflops, 2000) << "a compiler that saw through the loop would say so";
  EXPECT_EQ(r.bf16_gflops > 0, !r.bf16_how.empty());
  EXPECT_EQ(r.int8_gops > 0, !r.int8_how.empty());
  ASSERT_GE(r.copies.size(), 3u);
  for (const auto& c : r.copies) EXPECT_GT(c.gb_per_s, 0.05);
}

TEST(Bench, ReportsSurviveJson) {
  const BenchReport r =
      report_of({{.id = "gemm:x:f32", .median_us = 12.5, .spread = 0.01, .repeats = 7, .gflops = 3}});
  const BenchReport back = bench_from_json(to_json(r), "file");
  ASSERT_EQ(back.lines.size(), 1u);
  EXPECT_EQ(back.lines[0].id, "gemm:x:f32");
  EXPECT_EQ(back.lines[0].repeats, 7);
  EXPECT_EQ(back.all.copies.size(), 2u);
  EXPECT_EQ(compare_bench(r, back).at(0).verdict, Verdict::same);
}

TEST(Bench, DamagedReportsAreRefused) {
  const auto code_of = [](nlohmann::json j) {
    try {
      bench_from_json(j, "file.json");
    } catch (const Error& e) {
      EXPECT_NE(e.message().find("file.json"), std::string::npos);
      return e.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code_of(nlohmann::json::array()), ErrorCode::corrupt);
  EXPECT_EQ(code_of({{"kind", "bench"}}), ErrorCode::corrupt);
  auto j = to_json(report_of({{.id = "x", .median_us = 1}}));
  j["lines"][0]["median_us"] = 0;
  EXPECT_EQ(code_of(j), ErrorCode::corrupt);
  j["lines"][0]["median_us"] = "fast";
  EXPECT_EQ(code_of(j), ErrorCode::corrupt);
}

TEST(Bench, TimesWhatTheFilterNames) {
  const BenchReport r = run_bench({.filter = "rope:1x4680", .threads = 1, .seconds_per_case = 0.01});
  ASSERT_EQ(r.lines.size(), 1u);
  EXPECT_TRUE(r.lines[0].id.ends_with(":cpu")) << "only the implementation that is picked: " << r.lines[0].id;
  EXPECT_GT(r.lines[0].median_us, 0);
  EXPECT_GE(r.lines[0].repeats, 3);
  EXPECT_GT(r.lines[0].roofline, 0);
  EXPECT_THROW(run_bench({.filter = "no_such_op"}), Error);
  EXPECT_THROW(run_bench({.level = "warp"}), Error);
}

// Makes a report of blocks. Called with other numbers it stands for a second machine, half as fast in
// everything.
BenchReport blocks_of(double decode_ms, double scale, double gflops) {
  BenchReport r = report_of({});
  r.blocks.kind = "universal";
  r.all.f32_gflops = gflops;
  const auto add = [&](const char* id, double ms, double share) {
    r.lines.push_back({.id = id,
                       .median_us = 1000 * scale * ms,
                       .repeats = 10,
                       .mean_us = 1000 * scale * ms,
                       .p95_us = 1000 * scale * ms,
                       .share = share});
  };
  add("block", 60 + decode_ms, 0), add("block: attention", 30, 0.2), add("block: feed-forward", 20, 0.15),
      add("block: actions", 10, 0.1);
  add("block: decode", decode_ms, 0.5), add("block: copy", 0.01, 0.0001);
  return r;
}

TEST(BenchRelative, AnotherMachineIsNoSlowerComponent) {
  const BenchReport before = blocks_of(100, 1, 100);
  for (const RelativeLine& l : compare_relative(before, blocks_of(100, 2, 50), 3)) {
    EXPECT_TRUE(l.ok) << l.id;
    EXPECT_NEAR(l.slower, 1, 1e-9) << l.id;
    EXPECT_NE(l.id, "block: copy") << "too little to time";
  }
}

TEST(BenchRelative, AComponentSeveralTimesSlowerIsFound) {
  const BenchReport before = blocks_of(100, 1, 100);
  for (const double scale : {1.0, 2.0}) {
    for (const RelativeLine& l : compare_relative(before, blocks_of(400, scale, 100 / scale), 3))
      EXPECT_EQ(l.ok, l.id != "block: decode") << l.id << " " << l.slower;
  }
  int missed = 0;
  for (const RelativeLine& l : compare_relative(before, blocks_of(100, 4, 100), 3)) missed += !l.ok;
  EXPECT_EQ(missed, 1) << "everything is four times slower on the same machine: the block";
  EXPECT_THROW(compare_relative(report_of({}), before, 3), Error);
}

}  // namespace
}  // namespace tachy
