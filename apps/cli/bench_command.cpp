// `tachyscope bench`: how fast are the ops and a whole step here, and against an earlier run? And `compare`,
// which does the second with two stored reports.

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "api/exit_code.h"
#include "api/tachyscope.h"
#include "base/env.h"
#include "base/log.h"
#include "commands.h"
#include "gauge_options.h"
#include "status_line.h"

namespace tachy::cli {
namespace {

using nlohmann::json;

constexpr const char* kCompared =
    "A line is faster or slower when its median moved by more than 5 % and by more than three times the "
    "spread\n"
    "(half the middle half of the repeats, of the median) of both runs together; otherwise it is the same.";

BenchReport read_report(const std::string& path) {
  std::ifstream in(path);
  check(in.good(), ErrorCode::not_found, "cannot read {}", path);
  try {
    return bench_from_json(json::parse(in), path);
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "{}: {}", path, e.what());
  }
}

std::string rate(double value) { return value > 0 ? fmt::format("{:.1f}", value) : ""; }

void print_roofline(const char* name, const cpu::Roofline& r) {
  fmt::print("{:<14}f32 {:.0f} GFLOP/s", name, r.f32_gflops);
  if (r.bf16_gflops > 0) fmt::print(", bf16 {:.0f} GFLOP/s ({})", r.bf16_gflops, r.bf16_how);
  fmt::print(", copy");
  for (const auto& c : r.copies) fmt::print(" {:.1f}", c.gb_per_s);
  fmt::print(" GB/s at");
  for (const auto& c : r.copies) fmt::print(" {}", human_bytes(static_cast<uint64_t>(c.bytes)));
  fmt::print("\n");
}

void print_gpu_report(const BenchReport& report) {
  const BenchGpu& g = report.gpu;
  std::string libraries;
  for (const auto& [name, version] : g.libraries) libraries += fmt::format(", {} {}", name, version);
  fmt::print("{} (capability {}), {}, level {}, driver {}, CUDA {}{}\n", g.name, g.capability, g.dtype,
             report.level, g.driver.empty() ? "not stated" : g.driver, g.cuda, libraries);
  fmt::print("copy of 512 MiB {:.3f} TB/s, product of 8192 {:.1f} TFLOP/s\n", g.copy_gb_per_s * 1e-3,
             g.matmul_gflops * 1e-3);
  fmt::print("{:<72}{:>12}{:>8}{:>9}{:>10}{:>10}\n", "what", "median us", "spread", "TB/s", "TFLOP/s",
             "roofline");
  const auto thousand = [](double v) { return v > 0 ? fmt::format("{:.2f}", v * 1e-3) : std::string(); };
  for (const BenchLine& l : report.lines)
    fmt::print(
        "{:<72}{:>12.2f}{:>7.1f}%{:>9}{:>10}{:>10}\n", l.id, l.median_us, 100 * l.spread,
        thousand(l.gb_per_s), thousand(l.gflops),
        l.roofline > 0 ? fmt::format("{:.0f}% {}", 100 * l.roofline, l.bound == "memory" ? "m" : "c") : "");
  fmt::print("roofline: share of the copy's bytes (m) or the product's flops (c) a second\n");
}

void print_report(const BenchReport& report) {
  if (!report.gpu.name.empty()) return print_gpu_report(report);
  fmt::print("{}, {} threads, level {}\n", report.machine.cpu, report.threads, report.level);
  print_roofline("1 thread", report.one);
  print_roofline(fmt::format("{} threads", report.threads).c_str(), report.all);
  fmt::print("{:<62}{:>12}{:>8}{:>9}{:>10}{:>10}\n", "what", "median us", "spread", "GB/s", "GFLOP/s",
             "roofline");
  for (const BenchLine& l : report.lines)
    fmt::print(
        "{:<62}{:>12.1f}{:>7.1f}%{:>9}{:>10}{:>10}\n", l.id, l.median_us, 100 * l.spread, rate(l.gb_per_s),
        rate(l.gflops),
        l.roofline > 0 ? fmt::format("{:.0f}% {}", 100 * l.roofline, l.bound == "memory" ? "m" : "c") : "");
  fmt::print("roofline: share of what this machine could do at most; m: limited by memory, c: by compute\n");
}

json comparison_json(const std::vector<BenchComparison>& lines) {
  json out = json::array();
  for (const BenchComparison& c : lines)
    out.push_back({{"id", c.id},
                   {"verdict", verdict_name(c.verdict)},
                   {"before_us", c.before_us},
                   {"after_us", c.after_us},
                   {"change", c.change},
                   {"threshold", c.threshold}});
  return out;
}

// True when a line is slower.
bool print_comparison(const BenchReport& before, const BenchReport& after, bool as_json) {
  const std::vector<BenchComparison> lines = compare_bench(before, after);
  std::map<Verdict, int> counts;
  for (const BenchComparison& c : lines) ++counts[c.verdict];
  if (as_json) {
    fmt::print("{}\n", json{{"kind", "comparison"}, {"lines", comparison_json(lines)}}.dump(2));
    return counts[Verdict::slower] > 0;
  }
  fmt::print("{:<62}{:>12}{:>12}{:>9}{:>8}  {}\n", "what", "before us", "after us", "change", "noise",
             "verdict");
  for (const BenchComparison& c : lines) {
    const bool both = c.before_us > 0 && c.after_us > 0;
    fmt::print("{:<62}{:>12}{:>12}{:>9}{:>8}  {}\n", c.id, rate(c.before_us), rate(c.after_us),
               both ? fmt::format("{:+.1f}%", 100 * c.change) : "",
               both ? fmt::format("{:.0f}%", 100 * c.threshold) : "", verdict_name(c.verdict));
  }
  fmt::print("{} faster, {} the same, {} slower, {} new, {} gone\n", counts[Verdict::faster],
             counts[Verdict::same], counts[Verdict::slower], counts[Verdict::added], counts[Verdict::gone]);
  const auto machine = [](const BenchReport& r) {
    return r.gpu.name.empty() ? fmt::format("{}, {} threads, level {}", r.machine.cpu, r.threads, r.level)
                              : fmt::format("{}, {}, level {}", r.gpu.name, r.gpu.dtype, r.level);
  };
  const bool on_gpu = !after.gpu.name.empty();
  const auto drift_of = [](double was, double is) { return was > 0 ? is / was - 1 : 0.0; };
  const double drift = on_gpu ? drift_of(before.gpu.matmul_gflops, after.gpu.matmul_gflops)
                              : drift_of(before.all.f32_gflops, after.all.f32_gflops);
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

}  // namespace

void BenchCommand::add_options(CommandOptions& app, bool short_list) {
  app.add_option("--output,-o", output, "write the report here (JSON), for a later --compare");
  app.add_option("--compare", baseline, "an earlier report: print a verdict for each line");
  app.add_flag("--strict", strict, "exit code 10 when a line is slower than in --compare");
  app.add_option("-m,--model", options.model,
                 "model folder whose step is timed too (default: the one that ships)");
  if (short_list) return;
  app.add_option(
      "--op", options.filter,
      "only these: op, op:case or op:case:implementation, parts may be cut short; `model`: only the model");
  app.add_option("--cases", cases,
                 "of the ops: some of tiny,odd,real,video (the last: gigabytes; default: real, on a GPU "
                 "real,video)");
  app.add_option("--seconds", options.seconds_per_case, "time spent on each case");
  app.add_flag("--large", options.large, "also cases of more than 60 GFLOP, which take seconds each");
  app.add_flag("--all-implementations", options.all_implementations, "also those that are not picked here");
  app.add_flag("--ops-only", ops_only, "no model");
  app.add_option("--level", options.level, "none, safe, aggressive or extreme");
  app.add_option("--device", options.device, kDeviceHelp);
  app.add_option("--dtype", options.dtype, "on a GPU: bf16, f16 or f32 (default: the level's)");
  app.add_option("-t,--threads", options.threads, "threads (default: all this process may use)");
  app.add_flag("--json", json, "print JSON");
}

void BenchCommand::prepare() {
  options.device = choose_device(options.device);
  if (!baseline.empty()) before = naming("--compare", [&] { return read_report(baseline); });
  check_writable("--output", output);
  if (options.model.empty() && !ops_only) {
    try {
      options.model = shipped_model();
    } catch (const Error& e) {
      warn("bench: no model is timed: {}", e.message());
    }
  }
  if (ops_only) options.model.clear();
  options.cases = split(!cases.empty() ? cases : options.device == "cpu" ? "real" : "real,video", ',');
  check_bench(options);
}

int BenchCommand::run() {
  options.cancel = &g_cancel;
  StatusLine status(!json);
  options.progress = [&](const std::string& text) { status.show(text); };
  BenchReport report = run_bench(options);
  report.version = version();
  status.clear();
  if (!output.empty()) write_file(output, to_json(report).dump(1) + "\n");
  if (json && !before) fmt::print("{}\n", to_json(report).dump(2));
  if (!json) print_report(report);
  const bool slower = before && print_comparison(*before, report, json);
  return slower && strict ? kExitMiss : 0;
}

Command add_bench(CommandLine& line) {
  CommandOptions sub =
      line.add_command("bench", "time ops and a model's step against this machine's roofline");
  sub.alias("benchmark");
  auto command = std::make_shared<BenchCommand>();
  command->add_options(sub, false);
  sub.footer(
      std::string(
          "The roofline (multiply-adds in registers, bf16 products, copies at four sizes; one and all\n"
          "threads; on a GPU a copy of 512 MiB and the library's product of 8192 cubed) is measured in the\n"
          "same run.\n") +
      kCompared +
      "\nExamples:\n"
      "  tachyscope bench -o today.json\n"
      "  tachyscope bench --compare today.json --strict\n"
      "  tachyscope bench --op gemm --threads 1 --seconds 0.5\n"
      "  tachyscope bench --device cuda --op rmsnorm\n"
      "  tachyscope bench --op model --model Wan2.1-T2V-1.3B");
  return [command] {
    command->prepare();
    return command->run();
  };
}

Command add_compare(CommandLine& line) {
  struct Options {
    std::string before, after;
    bool json = false, strict = false;
  };
  CommandOptions sub = line.add_command("compare", "two reports of `bench --output`, line by line");
  auto o = std::make_shared<Options>();
  sub.add_option("before", o->before, "the earlier report")->required();
  sub.add_option("after", o->after, "the later report")->required();
  sub.add_flag("--strict", o->strict, "exit code 10 when a line is slower");
  sub.add_flag("--json", o->json, "print JSON");
  sub.footer(kCompared);
  return [o] {
    const bool slower = print_comparison(read_report(o->before), read_report(o->after), o->json);
    return slower && o->strict ? kExitMiss : 0;
  };
}

}  // namespace tachy::cli
