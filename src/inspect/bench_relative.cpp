// Compares two reports of blocks from machines that may differ. No times are compared: only a component is
// compared with the others of its run, and a block with what the machine's multiply-adds reach in that run.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "inspect/bench.h"

namespace tachy {
namespace {

constexpr double kLeastShare = 0.01;  // share of a block; smaller shares are noise
constexpr double kLeastTime = 500;    // us

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace

std::vector<RelativeLine> compare_relative(const BenchReport& before, const BenchReport& after,
                                           double factor) {
  require(!before.blocks.kind.empty() && !after.blocks.kind.empty(),
          "`relative`: it compares reports of blocks, and these are not");
  require(before.gpu.name.empty() == after.gpu.name.empty(),
          "`relative`: one report is of a GPU and the other is not");
  std::map<std::string, double> old;
  for (const BenchLine& line : before.lines)
    if (line.of_blocks()) old[line.id] = line.median_us;
  const auto peak = [](const BenchReport& r) {
    return r.gpu.name.empty() ? r.all.f32_gflops : r.gpu.matmul_gflops;
  };
  std::vector<RelativeLine> out;
  std::vector<double> ratios;
  double block = 0;
  for (const BenchLine& line : after.lines) {
    const auto was = old.find(line.id);
    if (was == old.end() || was->second <= 0) continue;
    if (line.id == "block") block = line.median_us / was->second;
    const bool counts = line.id.starts_with("block: ") && line.id != "block: other" &&
                        line.id != "block: copy" && line.share >= kLeastShare && line.median_us >= kLeastTime;
    if (!counts) continue;
    out.push_back({.id = line.id, .before_us = was->second, .after_us = line.median_us});
    ratios.push_back(line.median_us / was->second);
  }
  require(block > 0 && out.size() >= 3,
          "`relative`: expected a line of whole blocks and at least three components in both reports, got {}",
          out.size());
  const double machine = middle(ratios), expected = peak(after) > 0 ? peak(before) / peak(after) : 1;
  for (size_t i = 0; i < out.size(); ++i) out[i].slower = ratios[i] / machine;
  out.push_back({.id = "block",
                 .before_us = old["block"],
                 .after_us = old["block"] * block,
                 .slower = block / expected});
  for (RelativeLine& line : out) line.ok = line.slower <= factor;
  return out;
}

}  // namespace tachy
