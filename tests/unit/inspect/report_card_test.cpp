// A report card shows the rates that were reached beside those predicted, for a GPU with a row and for one without.
#include "inspect/report_card.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "inspect/op_runner.h"

namespace tachy::test {
namespace {

BenchReport report_of(const char* gpu) {
  BenchReport report;
  report.gpu.name = gpu;
  const auto add = [&](const char* id, double gflops) {
    report.lines.push_back({.id = id, .median_us = 1, .gflops = gflops});
  };
  add("attention:1x32760x32760x12x128-fused:flash_long_sm80", 210e3);
  add("attention:1x32760x32760x12x128-fused-8bits:flash8_sm80", 100e3);
  add("causal_conv3d:4x480x832x96to96-history2-k333-stride1-residual:sm80", 190e3);
  add("causal_conv3d:4x120x208x384to384-history2-k333-stride1:sm80", 220e3);
  add("rmsnorm:32760x1536:cuda", 900e3);  // a kind that has no row
  return report;
}

TEST(ReportCard, RatesAreBesideWhatWasPredicted) {
  const nlohmann::json rates = reached_and_predicted(report_of("NVIDIA A100-SXM4-80GB"));
  ASSERT_EQ(rates.size(), 3u);
  EXPECT_EQ(rates[0]["kind"], "attention in 16 bits");
  EXPECT_EQ(rates[0]["reached"][1], 210);
  EXPECT_EQ(rates[0]["predicted"][0], 180);
  EXPECT_TRUE(rates[0]["within"]);
  EXPECT_FALSE(rates[1]["within"]) << "100 T/s are fewer than any that were predicted";
  EXPECT_EQ(rates[2]["reached"][0], 190);
  EXPECT_EQ(rates[2]["reached"][1], 220);
}

TEST(ReportCard, NothingIsPredictedForAGpuWithoutARow) {
  for (const char* gpu : {"NVIDIA RTX A6000", "NVIDIA A100-PCIE-40GB", "NVIDIA GeForce RTX 3090 Ti"}) {
    const nlohmann::json rates = reached_and_predicted(report_of(gpu));
    ASSERT_EQ(rates.size(), 3u) << gpu;
    for (const auto& row : rates) {
      EXPECT_TRUE(row["predicted"].is_null()) << gpu;
      EXPECT_FALSE(row.contains("within")) << gpu;
    }
  }
}

// The lines are chosen by the beginnings of their names, so a case that got another name would leave its kind out.
TEST(ReportCard, EveryKindHasCasesThatABenchRuns) {
  BenchReport report;
  report.gpu.name = "NVIDIA L40S";
  for (const ops::OpCase& c : all_op_cases())
    if (c.gpu && c.flops > 0 && (c.kind == ops::CaseKind::real || c.kind == ops::CaseKind::video))
      report.lines.push_back({.id = c.op + ":" + c.name + ":sm80", .median_us = 1, .gflops = 1e3});
  const nlohmann::json rates = reached_and_predicted(report);
  EXPECT_EQ(rates.size(), 8u) << rates.dump(1);
  for (const auto& row : rates) EXPECT_FALSE(row["predicted"].is_null()) << row["kind"];
}

TEST(ReportCard, ACpuHasNone) { EXPECT_THROW(report_card({.device = "cpu"}, "1"), Error); }

}  // namespace
}  // namespace tachy::test
