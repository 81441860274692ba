// `tachyscope validate`: is this build right on this machine? And `all`, which benchmarks too.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/exit_code.h"
#include "api/tachyscope.h"
#include "base/env.h"
#include "base/field.h"
#include "commands.h"
#include "gauge_options.h"
#include "status_line.h"

namespace tachy::cli {
namespace {

constexpr const char* kFooter =
    "Checks:\n"
    "  op       compares every implementation with the op's definition (column max: worst error over its "
    "bound);\n"
    "           bitwise: the same bytes in two runs and for any number of threads; canary: nothing else is "
    "written;\n"
    "           capture, on a GPU: the op fits into a CUDA graph, whose replay gives the same bytes\n"
    "  stage    compares every stage of a model with golden values of the PyTorch reference; error "
    "max|y-R|/max|R|,\n"
    "           bound: three times the reference's own error in the same precision, at least 5e-6 (VAE "
    "1e-5);\n"
    "           in 16 bits also whether it meets max < 1e-2 and mean < 1e-3. A named model without golden\n"
    "           values compares its stages with the definitions (level none), two steps of the transformer\n"
    "           among them: in bf16 at most ten times what the definitions themselves differ by with\n"
    "           products in bf16\n"
    "  rollout  compares all velocities and latents of some blocks, for models that make videos block by "
    "block\n"
    "           (Self-Forcing, Matrix-Game 2): with golden ones (--golden tests/golden/causal), no further "
    "off\n"
    "           than the original itself is in the same precision; with --model, with the definitions, as "
    "for\n"
    "           stages. Where these would take too long, and on a GPU, bf16 is compared with float32: no "
    "further\n"
    "           off than the official models are on their own weights (0.028, mean 0.0052)\n"
    "  frame    compares a whole generation frame by frame: largest and mean difference in levels of 255, "
    "PSNR in dB\n"
    "Exit code 10 when a check misses its bound.\n"
    "Examples:\n"
    "  tachyscope validate                                    (all ops, the models that ship)\n"
    "  tachyscope validate --ops-only --op attention --cases tiny,odd,real\n"
    "  tachyscope validate --models-only --golden FOLDER      (made by tools/golden/make_validation.py)\n"
    "  tachyscope validate --models-only --model FOLDER       (any model)\n"
    "  tachyscope validate --level aggressive --json\n"
    "  tachyscope validate --device cuda --dtype bf16,f16,f32\n"
    "  tachyscope validate --device cpu                       (where a GPU is the default)";

std::string result_of(const Check& c) { return c.skipped ? "skipped" : c.ok ? "ok" : "FAILED"; }

void print_line(const Check& c) {
  const std::string detail = spelled(c.detail);
  if (c.skipped) {
    fmt::print("{:<8}{:<8}{}: {}\n", result_of(c), c.kind, c.name, detail);
  } else if (c.kind == "frame") {
    fmt::print("{:<8}{:<8}{:<44}{:>10}{:>10.4f}  {:>9}  {}\n", result_of(c), c.kind, c.name, c.max, c.mean,
               c.psnr >= 999 ? "equal" : fmt::format("{:.1f} dB", c.psnr), detail);
  } else if (c.kind == "op") {
    fmt::print("{:<8}{:<8}{:<44}{:>10.2f}{:>10}  {:>9.0f}  {}\n", result_of(c), c.kind, c.name, c.max, "",
               c.bound, detail);
  } else if (c.kind == "weights") {
    fmt::print("{:<8}{:<8}{:<44}{:>31}  {}\n", result_of(c), c.kind, c.name, "", detail);
  } else {
    fmt::print("{:<8}{:<8}{:<44}{:>10.1e}{:>10.1e}  {:>9.1e}  {}\n", result_of(c), c.kind, c.name, c.max,
               c.mean, c.bound, detail);
  }
  for (const std::string& failure : c.failures) fmt::print("        {}\n", spelled(failure));
}

}  // namespace

void ValidateCommand::add_options(CommandOptions& app, bool short_list) {
  app.add_option("--golden", options.golden,
                 "golden folder (again for more; default: those of the models that ship)")
      ->allow_extra_args(false);
  if (short_list) return;
  app.add_option("--op", options.filter,
                 "only these: op, op:case or op:case:implementation; parts may be cut short");
  app.add_option("--mode", modes,
                 "of the ops' checks: some of ref,bitwise,canary (default: all) and, on a GPU, capture");
  app.add_option("--cases", cases, "of the ops: some of tiny,odd,real,video (the last: gigabytes)");
  app.add_option("--max-gflop", options.max_definition_gflop,
                 "real cases beyond this skip the comparison with the (slow) definition")
      ->check(between(0, 1e6));
  app.add_option("--seed", options.seed, "of the ops' random inputs");
  app.add_option(
      "-m,--model", options.model,
      "a model: compared with its own golden values, or with the definitions where it has none; with "
      "--golden in place of the model that the golden folder names");
  app.add_option("--level", options.level, "none, safe, aggressive or extreme");
  app.add_option("--device", options.device, kDeviceHelp);
  app.add_option("--dtype", dtypes,
                 "on a GPU: of the ops' activations, some of bf16,f16,f32 (default: the level's); the first "
                 "is the models'");
  app.add_option("-t,--threads", options.threads, "threads (default: all this process may use)");
  app.add_flag("--ops-only", ops_only, "no models");
  app.add_flag("--models-only", models_only, "no ops");
  app.add_flag("--json", json, "print JSON");
}

void ValidateCommand::prepare() {
  require(!(ops_only && models_only), "--ops-only and --models-only exclude each other");
  options.device = choose_device(options.device);
  options.ops = !models_only, options.models = !ops_only;
  options.modes = split(modes, ','), options.cases = split(cases, ',');
  options.dtypes = split(dtypes, ',');
  if (options.modes.empty()) options.modes = {"ref", "bitwise", "canary"};
  if (modes.empty() && options.device != "cpu") options.modes.emplace_back("capture");
  check_validate(options);
}

int ValidateCommand::run() {
  options.cancel = &g_cancel;
  StatusLine status(!json);
  options.progress = [&](const std::string& text) { status.show(text); };
  const std::vector<Check> checks = run_validate(options);
  status.clear();
  int failed = 0;
  for (const Check& c : checks) failed += !c.ok;
  if (json) {
    fmt::print("{}\n", spelled(to_json(checks).dump(2)));
  } else {
    fmt::print("{:<8}{:<8}{:<44}{:>10}{:>10}  {:>9}\n", "result", "kind", "what", "max", "mean", "bound/dB");
    for (const Check& c : checks) print_line(c);
    fmt::print("{} checks, {} failed\n", checks.size(), failed);
  }
  return failed ? kExitMiss : 0;
}

Command add_validate(CommandLine& line) {
  CommandOptions sub =
      line.add_command("validate", "check ops, models and a whole generation against the reference");
  sub.alias("correctness");
  auto command = std::make_shared<ValidateCommand>();
  command->add_options(sub, false);
  sub.footer(kFooter);
  return [command] {
    command->prepare();
    return command->run();
  };
}

Command add_all(CommandLine& line) {
  CommandOptions sub = line.add_command("all", "validate, then bench (and compare, with --compare)");
  auto first = std::make_shared<ValidateCommand>();
  auto second = std::make_shared<BenchCommand>();
  auto level = std::make_shared<std::string>("safe"), device = std::make_shared<std::string>();
  auto threads = std::make_shared<int>(0);
  first->add_options(sub, true);
  second->add_options(sub, true);
  sub.add_option("--level", *level, "none, safe, aggressive or extreme");
  sub.add_option("--device", *device, kDeviceHelp);
  sub.add_option("--dtype", first->dtypes,
                 "on a GPU: some of bf16,f16,f32 (default: the level's); the first is what bench times");
  sub.add_option("-t,--threads", *threads, "threads (default: all this process may use)");
  sub.add_flag("--json", first->json,
               "print JSON: the checks, then the bench (or with --compare what it moved)");
  sub.footer(
      "For a model that makes videos block by block (Self-Forcing, Matrix-Game 2), its rollouts are checked "
      "and its\n"
      "blocks are timed, but no ops.\n"
      "Exit code 10 when a check misses its bound, or, with --strict, a line is slower than the baseline.");
  return [first, second, level, device, threads] {
    first->options.level = second->options.level = *level;
    first->options.device = second->options.device = choose_device(*device);
    first->options.threads = second->options.threads = *threads;
    second->json = first->json;
    if (!second->options.model.empty() && checks_blocks(second->options.model))
      first->options.model = second->options.model, first->models_only = true;
    if (const auto list = split(first->dtypes, ','); !list.empty()) second->options.dtype = list.front();
    first->prepare(), second->prepare();
    const int validated = first->run(), benched = second->run();
    return validated ? validated : benched;
  };
}

}  // namespace tachy::cli
