// `tachyscope doctor` reports this machine's hardware, what each op will use and why, and whether it works
// here.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/exit_code.h"
#include "api/tachyscope.h"
#include "base/env.h"
#include "base/field.h"
#include "base/json_text.h"
#include "commands.h"
#include "gauge_options.h"
#include "inspect/doctor.h"
#include "picks.h"

namespace tachy::cli {
namespace {

void print_machine(const cpu::Machine& m) {
  fmt::print("CPU        {}\n", m.cpu);
  fmt::print(
      "           {} of {} processors usable; vector code: {}{}\n", m.usable, m.processors, m.vector_code,
      m.compiled_for.empty() ? "" : " alone: built for this kind of CPU (make build makes one for all)");
  fmt::print("           {}\n", fmt::join(m.isa, " "));
  std::string caches;
  for (const auto& [name, size] : m.caches)
    caches += fmt::format("{}{} {}", caches.empty() ? "" : ", ", name, size);
  fmt::print("caches     {}\n", caches.empty() ? "not stated" : caches);
  fmt::print("memory     {}, {} available{}\n", human_bytes(m.memory_bytes), human_bytes(m.available_bytes),
             m.memory_limit_bytes ? ", container limit " + human_bytes(m.memory_limit_bytes) : "");
}

void print_gpu(const GpuState& g) {
  if (g.name.empty()) return fmt::print("GPU        none: {}\n", spelled(g.why_not));
  fmt::print("GPU {:<7}{}, capability {}, {} multiprocessors\n", g.index, g.name, g.capability,
             g.multiprocessors);
  fmt::print("           {} memory, {} free, {} second-level cache\n", human_bytes(g.memory_bytes),
             human_bytes(g.free_bytes), human_bytes(g.l2_bytes));
  fmt::print("           family {}: the sizes from which each kernel is used are {}\n", g.family,
             g.measured ? "measured there" : "guesses");
  fmt::print("           driver {}, CUDA {}\n", g.driver.empty() ? "not stated" : g.driver, g.cuda);
  for (const auto& [name, version] : g.libraries) fmt::print("           {} {}\n", name, version);
}

void print_text(const DoctorReport& report) {
  print_machine(report.machine);
  print_gpu(report.gpu);
  std::string libraries;
  for (const auto& [name, v] : report.libraries)
    libraries += fmt::format("{}{} {}", libraries.empty() ? "" : ", ", name, v);
  fmt::print("libraries  {}\n", libraries);
  fmt::print("device     {}: everything below is about it; --device names another\n\n", report.device);
  fmt::print("  {:<12}{:<94}{}\n", "level", "what it turns on", "on this machine");
  for (const LevelState& l : report.levels)
    fmt::print("{} {:<12}{:<94}{}\n", l.active ? "*" : " ", l.name, l.means, l.here);
  const bool on_gpu = report.device != "cpu";
  fmt::print("\n");
  print_optimisations(report.optimisations);
  fmt::print("\n");
  if (on_gpu) fmt::print("ops on the GPU with activations in {}:\n", report.gpu.dtype);
  fmt::print("{:<29}{:<14}{:>6}  {:<6}{:>15}  {}\n", "op, in the shapes of models", "uses", "cases", "works",
             "error of bound", "why");
  for (const OpHealth& h : report.ops) {
    fmt::print("{:<29}{:<14}{:>6}  {:<6}{:>15.2f}  {}{}\n", h.op, h.pick, h.cases, h.ok ? "yes" : "NO",
               h.worst, h.why, h.real ? "" : " (small shapes: it has no others)");
    for (const auto& e : h.exceptions)
      fmt::print("{:<29}{} in {} of {} cases{}\n", "", e.pick, e.cases, h.cases,
                 e.reason.empty() ? "" : ", not " + e.reason);
    if (!h.ok) fmt::print("{:<29}{}\n", "", spelled(h.failure));
  }
  print_picks(report.model);
  fmt::print("self-test of {} ops: {} ({}; {} larger cases are left to `tachyscope validate`)\n",
             report.ops.size(), report.ok() ? "all work" : "SOME FAIL",
             human_seconds(report.self_test_seconds), report.left_out);
}

}  // namespace

Command add_doctor(CommandLine& line) {
  struct Options {
    std::string level = "safe", device, dtype, model;
    int threads = 0;
    bool json = false;
  };
  CommandOptions sub = line.add_command(
      "doctor", "show what this machine has, what each op uses and why, and run a self-test");
  auto o = std::make_shared<Options>();
  sub.add_option("--level", o->level,
                 "show what would be used at this level: none, safe, aggressive or extreme");
  sub.add_option("--device", o->device, kDeviceHelp);
  sub.add_option("--dtype", o->dtype, "precision on a GPU: bf16, f16 or f32 (default: the level's)");
  sub.add_option("-m,--model", o->model,
                 "folder of a model: also show which implementations a video of it would use");
  sub.add_option("-t,--threads", o->threads, "number of threads (default: all that this process may use)");
  sub.add_flag("--json", o->json, "print JSON");
  sub.footer(
      "The self-test compares every implementation with its definition on small inputs; `tachyscope "
      "validate`\n"
      "checks far more. The exit code is 10 when an op fails.");
  return [o] {
    const DoctorReport report = run_doctor(o->level, o->threads, o->device, o->dtype, o->model);
    if (o->json) {
      auto j = to_json(report);
      j["tachyscope"] = version();
      j["optimisations"] = optimisations_json(report.optimisations);
      for (const StagePlan& s : report.model)
        j["model"].push_back({{"stage", s.name}, {"ops", picks_json(s)}});
      fmt::print("{}\n", spelled(json_text(j, 2)));
    } else {
      fmt::print("tachyscope {}\n", version());
      print_text(report);
    }
    return report.ok() ? 0 : kExitMiss;
  };
}

}  // namespace tachy::cli
