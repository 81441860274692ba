// Reports of blocks as tables and as JSON are read back, damaged, and compared with one another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "inspect/bench.h"

namespace tachy {
namespace {

using testing::HasSubstr;

BenchReport blocks_report(double factor) {
  BenchReport r{.version = "1", .level = "safe", .threads = 2};
  r.machine.cpu = "a CPU";
  r.one = r.all = {.threads = 2, .f32_gflops = 100, .copies = {{1e6, 40}}};
  r.blocks = {.kind = "universal", .model = "small", .dtype = "f32", .width = 160, .height = 96, .steps = 2};
  r.blocks.block = 1, r.blocks.frames = 4, r.blocks.window = 12, r.blocks.blocks = 40;
  r.lines = {{.id = "block",
              .median_us = 1000 * factor,
              .spread = 0.01,
              .repeats = 40,
              .mean_us = 1100 * factor,
              .p95_us = 1500 * factor,
              .share = 1},
             {.id = "block: attention",
              .median_us = 400,
              .spread = 0.01,
              .repeats = 10,
              .mean_us = 410,
              .p95_us = 450,
              .share = 0.4}};
  return r;
}

TEST(BlockReports, TablesAreReadBack) {
  const BenchReport r = blocks_report(1), back = bench_from_table(bench_table(r), "baseline.txt");
  ASSERT_EQ(back.lines.size(), 2u);
  EXPECT_EQ(back.lines[1].id, "block: attention");
  EXPECT_NEAR(back.lines[0].mean_us, 1100, 1e-6);
  EXPECT_NEAR(back.lines[0].p95_us, 1500, 1e-6);
  EXPECT_NEAR(back.lines[1].share, 0.4, 1e-9);
  EXPECT_EQ(back.lines[1].repeats, 10);
  EXPECT_EQ(describe_blocks(back), describe_blocks(r));
  EXPECT_EQ(back.threads, 2);
  const BenchReport through_json = bench_from_json(to_json(r), "a.json");
  EXPECT_EQ(bench_table(through_json), bench_table(r));
}

TEST(BlockReports, DamagedTablesAreRefused) {
  const std::string good = bench_table(blocks_report(1));
  const auto code_of = [](const std::string& text) {
    try {
      bench_from_table(text, "baseline.txt");
    } catch (const Error& e) {
      EXPECT_THAT(e.message(), HasSubstr("baseline.txt"));
      return e.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code_of(""), ErrorCode::corrupt);
  EXPECT_EQ(code_of("# another table\n"), ErrorCode::corrupt);
  EXPECT_EQ(code_of(good.substr(0, 80)), ErrorCode::corrupt) << "cut in its second line";
  EXPECT_EQ(code_of(good + "block: norm  1.0  2.0\n"), ErrorCode::corrupt);
  EXPECT_EQ(code_of(good + "block: norm  nan  2.0  3.0  1%  -  4\n"), ErrorCode::corrupt);
  EXPECT_EQ(code_of(good + "block: norm  1.0  -2.0  3.0  1%  -  4\n"), ErrorCode::corrupt);
}

TEST(BlockReports, ComparisonsStateTheImprovement) {
  const auto lines = compare_bench(blocks_report(1), blocks_report(0.8));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].of_blocks);
  EXPECT_EQ(lines[0].verdict, Verdict::faster);
  EXPECT_NEAR(lines[0].improvement.mean, 0.2, 1e-12);
  EXPECT_NEAR(lines[0].improvement.median, 0.2, 1e-12);
  EXPECT_NEAR(lines[0].improvement.p95, 0.2, 1e-12);
  EXPECT_EQ(lines[1].verdict, Verdict::same);
  EXPECT_NEAR(compare_bench(blocks_report(1), blocks_report(1.5))[0].improvement.mean, -0.5, 1e-12);
}

}  // namespace
}  // namespace tachy
