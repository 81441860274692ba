// Prints reports of a bench for people, and comparisons of two of them.

#include "bench_print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/json_text.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

std::string rate(double value) { return value > 0 ? fmt::format("{:.1f}", value) : ""; }

void print_roofline(const char* name, const cpu::Roofline& r) {
  fmt::print("{:<14}f32 {:.0f} GFLOP/s", name, r.f32_gflops);
  if (r.bf16_gflops > 0) fmt::print(", bf16 {:.0f} GFLOP/s ({})", r.bf16_gflops, r.bf16_how);
  if (r.int8_gops > 0) fmt::print(", int8 {:.0f} GOP/s ({})", r.int8_gops, r.int8_how);
  fmt::print(", copy");
  for (const auto& c : r.copies) fmt::print(" {:.1f}", c.gb_per_s);
  fmt::print(" GB/s at");
  for (const auto& c : r.copies) fmt::print(" {}", human_bytes(static_cast<uint64_t>(c.bytes)));
  fmt::print("\n");
}

// Returns the lines that are not about blocks.
std::vector<BenchLine> ops_of(const BenchReport& report) {
  std::vector<BenchLine> out;
  std::ranges::copy_if(report.lines, std::back_inserter(out),
                       [](const BenchLine& l) { return !l.of_blocks(); });
  return out;
}
bool has_ops(const BenchReport& report) { return !ops_of(report).empty() || report.blocks.kind.empty(); }

void print_blocks(const BenchReport& report) {
  if (!report.blocks.kind.empty()) fmt::print("{}{}", describe_blocks(report), block_lines(report));
}

void print_gpu_report(const BenchReport& report) {
  const BenchGpu& g = report.gpu;
  std::string libraries;
  for (const auto& [name, version] : g.libraries) libraries += fmt::format(", {} {}", name, version);
  fmt::print("{} (capability {}), {}, level {}, driver {}, CUDA {}{}\n", g.name, g.capability, g.dtype,
             report.level, g.driver.empty() ? "not stated" : g.driver, g.cuda, libraries);
  fmt::print("copy of 512 MiB {:.3f} TB/s, product of 8192 {:.1f} TFLOP/s\n", g.copy_gb_per_s * 1e-3,
             g.matmul_gflops * 1e-3);
  print_blocks(report);
  if (!has_ops(report)) return;
  fmt::print("{:<72}{:>12}{:>8}{:>9}{:>10}{:>10}\n", "what", "median us", "spread", "TB/s", "TFLOP/s",
             "roofline");
  const auto thousand = [](double v) { return v > 0 ? fmt::format("{:.2f}", v * 1e-3) : std::string(); };
  for (const BenchLine& l : ops_of(report))
    fmt::print(
        "{:<72}{:>12.2f}{:>7.1f}%{:>9}{:>10}{:>10}\n", l.id, l.median_us, 100 * l.spread,
        thousand(l.gb_per_s), thousand(l.gflops),
        l.roofline > 0 ? fmt::format("{:.0f}% {}", 100 * l.roofline, l.bound == "memory" ? "m" : "c") : "");
  fmt::print("roofline: share of the copy's bytes (m) or the product's flops (c) a second\n");
}

}  // namespace

void print_report(const BenchReport& report) {
  if (!report.gpu.name.empty()) return print_gpu_report(report);
  fmt::print("{}, {}, level {}\n", report.machine.cpu, count_of(report.threads, "thread"), report.level);
  print_roofline("1 thread", report.one);
  print_roofline(count_of(report.threads, "thread").c_str(), report.all);
  print_blocks(report);
  if (!has_ops(report)) return;
  fmt::print("{:<62}{:>12}{:>8}{:>9}{:>10}{:>10}\n", "what", "median us", "spread", "GB/s", "GFLOP/s",
             "roofline");
  for (const BenchLine& l : ops_of(report))
    fmt::print(
        "{:<62}{:>12.1f}{:>7.1f}%{:>9}{:>10}{:>10}\n", l.id, l.median_us, 100 * l.spread, rate(l.gb_per_s),
        rate(l.gflops),
        l.roofline > 0 ? fmt::format("{:.0f}% {}", 100 * l.roofline, l.bound == "memory" ? "m" : "c") : "");
  fmt::print("roofline: share of what this machine could do at most; m: limited by memory, c: by compute\n");
}

namespace {

json comparison_json(const std::vector<BenchComparison>& lines) {
  json out = json::array();
  for (const BenchComparison& c : lines)
    out.push_back({{"id", c.id},
                   {"verdict", verdict_name(c.verdict)},
                   {"before_us", c.before_us},
                   {"after_us", c.after_us},
                   {"change", c.change},
                   {"threshold", c.threshold}});
  for (size_t i = 0; i < lines.size(); ++i)
    if (lines[i].of_blocks)
      out[i]["improvement"] = {{"mean", lines[i].improvement.mean},
                               {"median", lines[i].improvement.median},
                               {"p95", lines[i].improvement.p95}};
  return out;
}

// Prints by how many percent the time of each line of blocks has shrunk.
void print_improvements(const std::vector<BenchComparison>& lines) {
  fmt::print("{:<28}{:>12}{:>12}{:>8}{:>10}{:>10}{:>10}  {}\n", "median of", "before ms", "after ms", "noise",
             "mean", "median", "P95", "verdict");
  const auto percent = [](double part) { return fmt::format("{:+.1f}%", 100 * part); };
  for (const BenchComparison& c : lines)
    if (c.of_blocks)
      fmt::print("{:<28}{:>12.3f}{:>12.3f}{:>8}{:>10}{:>10}{:>10}  {}\n", c.id, c.before_us / 1000,
                 c.after_us / 1000, fmt::format("{:.0f}%", 100 * c.threshold), percent(c.improvement.mean),
                 percent(c.improvement.median), percent(c.improvement.p95), verdict_name(c.verdict));
  fmt::print("mean, median, P95: improvement, how much less time than before (negative: more)\n");
}

}  // namespace

bool print_comparison(const BenchReport& before, const BenchReport& after, bool as_json) {
  const std::vector<BenchComparison> lines = compare_bench(before, after);
  std::map<Verdict, int> counts;
  for (const BenchComparison& c : lines) ++counts[c.verdict];
  if (as_json) {
    fmt::print("{}\n", json_text(json{{"kind", "comparison"}, {"lines", comparison_json(lines)}}, 2));
    return counts[Verdict::slower] > 0;
  }
  const auto of_blocks = [](const BenchComparison& c) { return c.of_blocks; };
  if (std::ranges::any_of(lines, of_blocks)) print_improvements(lines);
  if (!std::ranges::all_of(lines, of_blocks))
    fmt::print("{:<62}{:>12}{:>12}{:>9}{:>8}  {}\n", "what", "before us", "after us", "change", "noise",
               "verdict");
  for (const BenchComparison& c : lines) {
    if (c.of_blocks) continue;
    const bool both = c.before_us > 0 && c.after_us > 0;
    fmt::print("{:<62}{:>12}{:>12}{:>9}{:>8}  {}\n", c.id, rate(c.before_us), rate(c.after_us),
               both ? fmt::format("{:+.1f}%", 100 * c.change) : "",
               both ? fmt::format("{:.0f}%", 100 * c.threshold) : "", verdict_name(c.verdict));
  }
  fmt::print("{} faster, {} the same, {} slower, {} new, {} gone\n", counts[Verdict::faster],
             counts[Verdict::same], counts[Verdict::slower], counts[Verdict::added], counts[Verdict::gone]);
  const auto machine = [](const BenchReport& r) {
    return r.gpu.name.empty()
               ? fmt::format("{}, {}, level {}", r.machine.cpu, count_of(r.threads, "thread"), r.level)
               : fmt::format("{}, {}, level {}", r.gpu.name, r.gpu.dtype, r.level);
  };
  const bool on_gpu = !after.gpu.name.empty();
  const auto drift_of = [](double was, double is) { return was > 0 ? is / was - 1 : 0.0; };
  const double drift = on_gpu ? drift_of(before.gpu.matmul_gflops, after.gpu.matmul_gflops)
                              : drift_of(before.all.f32_gflops, after.all.f32_gflops);
  if (describe_blocks(before) != describe_blocks(after))
    fmt::print("the blocks differ:\n  {}  {}", describe_blocks(before), describe_blocks(after));
  if (machine(before) != machine(after))
    fmt::print("the runs differ: {} before; {} after\n", machine(before), machine(after));
  else if (std::abs(drift) > 0.1)
    fmt::print("the machine itself was {:.0f} % {} this time ({} peak): repeat both runs at a quiet moment\n",
               100 * std::abs(drift), drift > 0 ? "faster" : "slower",
               on_gpu ? "matrix product" : "multiply-add");
  if (on_gpu && before.gpu.driver != after.gpu.driver)
    fmt::print("driver {} before, {} after\n", before.gpu.driver, after.gpu.driver);
  return counts[Verdict::slower] > 0;
}

bool print_relative(const BenchReport& before, const BenchReport& after, double factor, bool as_json) {
  const std::vector<RelativeLine> lines = compare_relative(before, after, factor);
  json list = json::array();
  if (!as_json)
    fmt::print("{:<28}{:>12}{:>12}{:>16}  {}\n", "median of", "before ms", "now ms", "times slower",
               "verdict");
  bool missed = false;
  for (const RelativeLine& l : lines) {
    missed = missed || !l.ok;
    if (as_json)
      list.push_back({{"id", l.id},
                      {"before_us", l.before_us},
                      {"after_us", l.after_us},
                      {"slower", l.slower},
                      {"ok", l.ok}});
    else
      fmt::print("{:<28}{:>12.3f}{:>12.3f}{:>16.2f}  {}\n", l.id, l.before_us / 1000, l.after_us / 1000,
                 l.slower, l.ok ? "ok" : "SLOWER");
  }
  if (as_json)
    fmt::print(
        "{}\n",
        json_text(json{{"kind", "relative"}, {"factor", factor}, {"ok", !missed}, {"lines", list}}, 2));
  else
    fmt::print(
        "times slower: of a component than the middle one of this run, of a block than this machine's "
        "multiply-adds; at most {:g}\n",
        factor);
  return missed;
}

}  // namespace tachy::cli
