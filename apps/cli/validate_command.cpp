// `tachyscope validate` checks whether this build is right on this machine; `all` does so and benchmarks it,
// too.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/exit_code.h"
#include "api/tachyscope.h"
#include "base/env.h"
#include "base/field.h"
#include "base/json_text.h"
#include "commands.h"
#include "gauge_options.h"
#include "inspect/rollout_checks.h"
#include "status_line.h"

namespace tachy::cli {
namespace {

constexpr const char* kFooter =
    "Checks:\n"
    "  op       compares every implementation with the op's definition (column max: worst error / its "
    "bound);\n"
    "           bitwise: the same bytes in two runs and for any number of threads; canary: nothing else is "
    "written;\n"
    "           capture, on a GPU: the op fits into a CUDA graph, whose replay gives the same bytes\n"
    "  stage    compares every stage of a model with golden values of PyTorch; error: max|y-R|/max|R|;\n"
    "           bound: three times the reference's own error in the same precision, at least 5e-6 (VAE "
    "1e-5);\n"
    "           in 16 bits says also whether max < 1e-2 and mean < 1e-3 are met. Stages of a named model\n"
    "           without golden values are compared with the definitions (level none), two steps of the\n"
    "           transformer among them; bound in bf16: ten times what the definitions themselves differ by\n"
    "           with products in bf16\n"
    "  rollout  for models that make videos block by block (Self-Forcing, Matrix-Game 2): compares all\n"
    "           velocities and latents of some blocks with golden ones (--golden tests/golden/causal),\n"
    "           bound: the error of the original in the same precision; with --model compares with the\n"
    "           definitions, as for stages. Where these would take too long, and on a GPU, compares bf16\n"
    "           with float32, bound: the error of the official models' bf16 on their weights (0.028, mean\n"
    "           0.0052)\n"
    "  frame    compares a whole generation frame by frame: largest and mean difference in levels of 255, "
    "PSNR\n"
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
                 "folder of golden files; repeat it for more (default: those of the models that ship with "
                 "Tachyscope)")
      ->allow_extra_args(false);
  if (short_list) return;
  app.add_option(
      "--op", options.filter,
      "check only these: op, op:case or op:case:implementation, where the beginning of each name is enough");
  app.add_option("--mode", modes,
                 "checks of the ops, some of ref,bitwise,canary and, on a GPU, capture (default: all)");
  app.add_option(
      "--cases", cases,
      "cases of the ops, some of tiny,odd,real,video; the last take gigabytes (default: tiny,odd)");
  app.add_option("--max-gflop", options.max_definition_gflop,
                 "do not compare real cases larger than this with the op's definition, which is slow")
      ->check(between(0, 1e6));
  app.add_option("--seed", options.seed, "seed of the random inputs of the ops");
  app.add_option("-m,--model", options.model,
                 "folder of a model to check: against its own golden values, or the definitions if it has "
                 "none; with --golden the model to use instead of the one that the golden folder names");
  app.add_option("--level", options.level,
                 "how much accuracy to trade for speed: none, safe (default), aggressive or extreme");
  app.add_option("--device", options.device, kDeviceHelp);
  app.add_option("--dtype", dtypes,
                 "precisions of the ops on a GPU, some of bf16,f16,f32 (default: the level's); the models "
                 "run in the first");
  app.add_option("-t,--threads", options.threads,
                 "number of threads (default: all that this process may use)");
  app.add_flag("--ops-only", ops_only, "check the ops and no models");
  app.add_flag("--models-only", models_only, "check the models and no ops");
  app.add_flag("--json", json, "print JSON");
}

void ValidateCommand::prepare() {
  require(!(ops_only && models_only),
          "--ops-only and --models-only exclude each other; leave one of them out");
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
    fmt::print("{}\n", spelled(json_text(to_json(checks), 2)));
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
  sub.add_option("--level", *level,
                 "how much accuracy to trade for speed: none, safe (default), aggressive or extreme");
  sub.add_option("--device", *device, kDeviceHelp);
  sub.add_option("--dtype", first->dtypes,
                 "precisions on a GPU, some of bf16,f16,f32 (default: the level's); bench times the first");
  sub.add_option("-t,--threads", *threads, "number of threads (default: all that this process may use)");
  sub.add_flag("--json", first->json,
               "print JSON: the checks, then the times, or with --compare how they have changed");
  sub.footer(
      "For a model that makes videos block by block (Self-Forcing, Matrix-Game 2), its rollouts are\n"
      "checked and its blocks are timed, and no ops.\n"
      "The exit code is 10 when a check misses its bound or, with --strict, a line is slower than before.");
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
