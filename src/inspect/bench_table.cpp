// A report of blocks as text: lines that begin with # say what was measured, and a table follows.
//
//   # tachyscope bench: blocks
//   # report {"kind": "bench", …}       everything but the lines, as in the JSON
//   # small (universal), 160x96, …
//   what                      mean ms   median ms      P95 ms   spread    share   times
//   block                      40.123      40.001      41.700     0.4%   100.0%      40
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/env.h"
#include "base/json_mistake.h"
#include "base/json_text.h"
#include "base/text_file.h"
#include "inspect/bench_lines.h"

namespace tachy {
namespace {

using nlohmann::json;

constexpr const char* kFirst = "# tachyscope bench: blocks";
constexpr const char* kReport = "# report ";

}  // namespace

std::string describe_blocks(const BenchReport& report) {
  const BenchBlocks& b = report.blocks;
  if (b.kind.empty()) return "";
  std::string out = fmt::format("{} ({}), {}x{}, blocks of {} latent frame{} ({}), window {}, {} steps, {}",
                                b.model, b.kind, b.width, b.height, b.block, b.block == 1 ? "" : "s",
                                count_of(b.frames, "frame"), b.window, b.steps, b.dtype);
  if (report.vae_math == "fp8" || report.vae_math == "int8") out += ", the VAE in " + report.vae_math;
  if (!report.gpu.name.empty())
    out += b.graphs ? "; whole blocks as CUDA graphs, components launch by launch" : "; without CUDA graphs";
  return out + "\n";
}

std::string block_lines(const BenchReport& report) {
  std::string out = fmt::format("{:<28}{:>12}{:>12}{:>12}{:>9}{:>9}{:>8}\n", "what", "mean ms", "median ms",
                                "P95 ms", "spread", "share", "times");
  for (const BenchLine& l : report.lines)
    if (l.of_blocks())
      out += fmt::format("{:<28}{:>12.4f}{:>12.4f}{:>12.4f}{:>8.2f}%{:>9}{:>8}\n", l.id, l.mean_us / 1000,
                         l.median_us / 1000, l.p95_us / 1000, 100 * l.spread,
                         l.share > 0 ? fmt::format("{:.1f}%", 100 * l.share) : "-", l.repeats);
  return out;
}

std::string bench_table(const BenchReport& report) {
  json whole = to_json(report);  // everything but the lines, as in the JSON
  whole["lines"] = json::array();
  return fmt::format("{}\n{}{}\n# {}{}", kFirst, kReport, json_line(whole), describe_blocks(report),
                     block_lines(report));
}

BenchReport bench_from_table(const std::string& text, const std::string& name) {
  std::istringstream in(text);
  std::string line;
  std::getline(in, line);
  check(line == kFirst, ErrorCode::corrupt, "{}: expected '{}' in its first line", name, kFirst);
  std::getline(in, line);
  check(line.starts_with(kReport), ErrorCode::corrupt, "{}: expected '{}…' in its second line", name,
        kReport);
  BenchReport report;
  try {
    report = bench_from_json(parse_json_line(line.substr(std::string_view(kReport).size())), name);
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "{}: line 2: {}", name, json_words(e.what()));
  }
  for (int number = 3; std::getline(in, line); ++number) {
    if (line.empty() || line.starts_with("#") || line.starts_with("what ")) continue;
    // Two spaces or more separate columns; inside names there are only single spaces.
    const size_t end = line.find("  ");
    check(end != line.npos && end > 0, ErrorCode::corrupt, "{}: line {}: expected a name and six columns",
          name, number);
    BenchLine l{.id = line.substr(0, end)};
    std::istringstream columns(line.substr(end));
    char percent = 0;
    std::string share;
    columns >> l.mean_us >> l.median_us >> l.p95_us >> l.spread >> percent >> share >> l.repeats;
    check(!columns.fail() && percent == '%', ErrorCode::corrupt,
          "{}: line {}: expected a name and six columns", name, number);
    l.mean_us *= 1000, l.median_us *= 1000, l.p95_us *= 1000, l.spread /= 100;
    if (share != "-") l.share = std::strtod(share.c_str(), nullptr) / 100;
    check_line(l, name);
    report.lines.push_back(std::move(l));
  }
  return report;
}

BenchReport read_bench(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  if (text.starts_with("#")) return bench_from_table(text, path.string());
  try {
    return bench_from_json(parse_json_text(text, path.string()), path.string());
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "{}: {}", path.string(), json_words(e.what()));
  }
}

}  // namespace tachy
