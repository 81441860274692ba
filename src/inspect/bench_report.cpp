// Turns a bench's report into JSON and back, and compares two of them.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json_mistake.h"
#include "inspect/bench_lines.h"

namespace tachy {
namespace {

using nlohmann::json;

constexpr double kLeastThreshold = 0.05;
constexpr double kNoiseFactor = 3;

json gpu_json(const BenchGpu& g) {
  json libraries = json::object();
  for (const auto& [name, version] : g.libraries) libraries[name] = version;
  return {{"name", g.name},         {"capability", g.capability},
          {"driver", g.driver},     {"cuda", g.cuda},
          {"dtype", g.dtype},       {"copy_gb_per_s", g.copy_gb_per_s},
          {"libraries", libraries}, {"matmul_gflops", g.matmul_gflops}};
}

BenchGpu gpu_from(const json& j) {
  BenchGpu g{.name = j.at("name").get<std::string>(),
             .capability = j.at("capability").get<std::string>(),
             .driver = j.at("driver").get<std::string>(),
             .cuda = j.at("cuda").get<std::string>(),
             .dtype = j.at("dtype").get<std::string>()};
  for (const auto& [name, version] : j.at("libraries").items())
    g.libraries.emplace_back(name, version.get<std::string>());
  g.copy_gb_per_s = j.at("copy_gb_per_s").get<double>();
  g.matmul_gflops = j.at("matmul_gflops").get<double>();
  return g;
}

json blocks_json(const BenchBlocks& b) {
  return {{"kind", b.kind},
          {"model", b.model},
          {"dtype", b.dtype},
          {"width", b.width},
          {"height", b.height},
          {"steps", b.steps},
          {"block", b.block},
          {"frames", b.frames},
          {"window", b.window},
          {"blocks", b.blocks},
          {"graphs", b.graphs},
          {"plan_bytes", b.plan_bytes},
          {"held_bytes", b.held_bytes},
          {"taken_bytes", b.taken_bytes}};
}

BenchBlocks blocks_from(const json& j) {
  return {.kind = j.at("kind").get<std::string>(),
          .model = j.at("model").get<std::string>(),
          .dtype = j.at("dtype").get<std::string>(),
          .width = j.at("width").get<int>(),
          .height = j.at("height").get<int>(),
          .steps = j.at("steps").get<int>(),
          .block = j.at("block").get<int64_t>(),
          .frames = j.at("frames").get<int64_t>(),
          .window = j.at("window").get<int64_t>(),
          .blocks = j.at("blocks").get<int64_t>(),
          .graphs = j.at("graphs").get<bool>(),
          .plan_bytes = j.at("plan_bytes").get<uint64_t>(),
          .held_bytes = j.at("held_bytes").get<uint64_t>(),
          .taken_bytes = j.value("taken_bytes", uint64_t{0})};
}

json roofline_json(const cpu::Roofline& r) {
  json copies = json::array();
  for (const auto& c : r.copies) copies.push_back({{"bytes", c.bytes}, {"gb_per_s", c.gb_per_s}});
  return {{"threads", r.threads},   {"f32_gflops", r.f32_gflops}, {"bf16_gflops", r.bf16_gflops},
          {"bf16_how", r.bf16_how}, {"int8_gops", r.int8_gops},   {"int8_how", r.int8_how},
          {"copies", copies}};
}

cpu::Roofline roofline_from(const json& j) {
  cpu::Roofline r{.threads = j.at("threads").get<int>(),
                  .f32_gflops = j.at("f32_gflops").get<double>(),
                  .bf16_gflops = j.at("bf16_gflops").get<double>(),
                  .bf16_how = j.at("bf16_how").get<std::string>(),
                  .int8_gops = j.value("int8_gops", 0.0),  // older reports do not have it
                  .int8_how = j.value("int8_how", std::string())};
  for (const json& c : j.at("copies"))
    r.copies.push_back({c.at("bytes").get<double>(), c.at("gb_per_s").get<double>()});
  return r;
}

}  // namespace

void check_line(const BenchLine& line, const std::string& name) {
  check(std::isfinite(line.median_us) && line.median_us > 0 && line.spread >= 0, ErrorCode::corrupt,
        "{}: '{}' has a median of {} us and a spread of {}", name, line.id, line.median_us, line.spread);
  check(std::isfinite(line.mean_us) && line.mean_us >= 0 && (line.mean_us == 0 || line.p95_us > 0),
        ErrorCode::corrupt, "{}: '{}' has a mean of {} us and a P95 of {}", name, line.id, line.mean_us,
        line.p95_us);
}

json to_json(const BenchReport& report) {
  json lines = json::array();
  for (const BenchLine& l : report.lines) {
    lines.push_back({{"id", l.id},
                     {"median_us", l.median_us},
                     {"spread", l.spread},
                     {"repeats", l.repeats},
                     {"gb_per_s", l.gb_per_s},
                     {"gflops", l.gflops},
                     {"roofline", l.roofline},
                     {"bound", l.bound}});
    if (l.of_blocks())
      lines.back().update({{"mean_us", l.mean_us}, {"p95_us", l.p95_us}, {"share", l.share}});
  }
  json out = {
      {"tachyscope", report.version},
      {"kind", "bench"},
      {"level", report.level},
      {"threads", report.threads},
      {"machine",
       {{"cpu", report.machine.cpu}, {"isa", report.machine.isa}, {"simd", report.machine.simd_target}}},
      {"lines", lines}};
  if (report.gpu.name.empty())
    out["roofline"] = {{"one_thread", roofline_json(report.one)}, {"all_threads", roofline_json(report.all)}};
  else
    out["gpu"] = gpu_json(report.gpu);
  if (report.vae_math != "auto") out["vae_math"] = report.vae_math;
  if (!report.blocks.kind.empty()) out["blocks"] = blocks_json(report.blocks);
  return out;
}

BenchReport bench_from_json(const json& j, const std::string& name) {
  try {
    BenchReport r;
    check(j.is_object() && j.value("kind", "") == "bench", ErrorCode::corrupt,
          "{}: expected a report that a bench has written", name);
    r.version = j.at("tachyscope").get<std::string>(), r.level = j.at("level").get<std::string>();
    r.vae_math = j.value("vae_math", "auto");
    r.threads = j.at("threads").get<int>(), r.machine.cpu = j.at("machine").at("cpu").get<std::string>();
    if (j.contains("gpu")) {
      r.gpu = gpu_from(j.at("gpu"));
      check(!r.gpu.name.empty(), ErrorCode::corrupt, "{}: the GPU has no name", name);
    } else {
      r.one = roofline_from(j.at("roofline").at("one_thread"));
      r.all = roofline_from(j.at("roofline").at("all_threads"));
    }
    for (const json& l : j.at("lines")) {
      r.lines.push_back({.id = l.at("id").get<std::string>(),
                         .median_us = l.at("median_us").get<double>(),
                         .spread = l.at("spread").get<double>(),
                         .repeats = l.at("repeats").get<int>(),
                         .gb_per_s = l.at("gb_per_s").get<double>(),
                         .gflops = l.at("gflops").get<double>(),
                         .roofline = l.at("roofline").get<double>(),
                         .bound = l.at("bound").get<std::string>(),
                         .mean_us = l.value("mean_us", 0.0),
                         .p95_us = l.value("p95_us", 0.0),
                         .share = l.value("share", 0.0)});
      check_line(r.lines.back(), name);
    }
    if (j.contains("blocks")) r.blocks = blocks_from(j.at("blocks"));
    return r;
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "{}: {}", name, json_words(e.what()));
  }
}

const char* verdict_name(Verdict verdict) {
  static const char* const kNames[] = {"faster", "same", "slower", "new", "gone"};
  return kNames[static_cast<int>(verdict)];
}

std::vector<BenchComparison> compare_bench(const BenchReport& before, const BenchReport& after) {
  std::map<std::string, const BenchLine*> old;
  for (const BenchLine& line : before.lines) old[line.id] = &line;
  std::vector<BenchComparison> out;
  for (const BenchLine& line : after.lines) {
    BenchComparison c{.id = line.id, .after_us = line.median_us, .verdict = Verdict::added};
    if (const auto it = old.find(line.id); it != old.end()) {
      const BenchLine& was = *it->second;
      c.before_us = was.median_us, c.change = line.median_us / was.median_us - 1;
      c.threshold = std::max(kLeastThreshold, kNoiseFactor * std::hypot(was.spread, line.spread));
      c.verdict = c.change > c.threshold    ? Verdict::slower
                  : c.change < -c.threshold ? Verdict::faster
                                            : Verdict::same;
      c.of_blocks = was.of_blocks() && line.of_blocks();
      if (c.of_blocks)
        c.improvement = {1 - line.mean_us / was.mean_us, 1 - line.median_us / was.median_us,
                         1 - line.p95_us / was.p95_us};
      old.erase(it);
    }
    out.push_back(c);
  }
  for (const BenchLine& line : before.lines)
    if (old.contains(line.id))
      out.push_back({.id = line.id, .before_us = line.median_us, .verdict = Verdict::gone});
  return out;
}

}  // namespace tachy
