// `tachyscope bench` measures how fast the ops and a whole step are here, also compared with an earlier run.
// `compare` makes the same comparison for two stored reports.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/exit_code.h"
#include "api/tachyscope.h"
#include "base/env.h"
#include "base/field.h"
#include "base/json_text.h"
#include "base/log.h"
#include "bench_print.h"
#include "commands.h"
#include "gauge_options.h"
#include "generate_options.h"
#include "inspect/bench_optimisations.h"
#include "media/files.h"
#include "report/profile_report.h"
#include "status_line.h"

namespace tachy::cli {
namespace {

constexpr const char* kCompared =
    "A line counts as faster or slower when its median has moved by more than 5 % and by more than three\n"
    "times the spread of both runs together (half the interquartile range, as a share of the median);\n"
    "otherwise it counts as the same.";

}  // namespace

void BenchCommand::add_options(CommandOptions& app, bool short_list) {
  app.add_option(
      "--output,-o", output,
      "write the report to this file, for a later --compare: JSON, or a table (.txt) if blocks were timed");
  app.add_option("--compare", baseline,
                 "compare with this earlier report, and print a verdict for each line");
  app.add_flag("--strict", strict,
               "fail (exit code 10) when a line is slower than in the report of --compare");
  app.add_option("-m,--model", options.model,
                 "folder of a model whose step is timed too (default: the one that ships with Tachyscope); "
                 "for a model that makes videos block by block, its blocks are timed, and no ops");
  app.add_option("--blocks", options.blocks,
                 "number of blocks to time (default 40, fewer where they take long); with it any "
                 "text-to-video model is run block by block");
  if (short_list) return;
  app.add_option(
      "--size", size,
      "blocks and --optimisations: width and height in pixels, such as 640x352 (default: the model's)");
  app.add_option("--window", options.window,
                 "blocks: number of latent frames that a block sees (default: the model's)");
  app.add_option(
      "--steps", options.steps,
      "blocks: number of denoising steps, taken evenly from the model's list (default: all of the list)");
  app.add_flag("--no-graph", no_graph,
               "blocks, on a GPU: launch every kernel by itself instead of replaying a CUDA graph");
  app.add_option("--profile", profile,
                 "blocks: write the time of each module to this file as a Chrome trace (JSON)");
  app.add_flag(
      "--optimisations", optimisations,
      "instead of all that: print what each optimisation gives a step of the model, alone and together");
  app.add_option("--report-card", card,
                 "instead of all that, on a GPU: write this file (JSON) about the GPU, to be sent to us");
  app.add_option("--rounds", rounds, "with --optimisations: how often each way is timed (default 5)")
      ->check(between(1, 1000));
  app.add_option("--op", options.filter,
                 "time only these: op, op:case or op:case:implementation, where the beginning of each name "
                 "is enough; `model`: only the model");
  app.add_option("--cases", cases,
                 "cases of the ops, some of tiny,odd,real,video; the last take gigabytes (default: real, on "
                 "a GPU real,video)");
  app.add_option("--seconds", options.seconds_per_case, "seconds to spend on each case");
  app.add_flag("--large", options.large, "also time cases of more than 60 GFLOP, which take seconds each");
  app.add_flag("--all-implementations", options.all_implementations,
               "also time the implementations that are not used on this machine");
  app.add_flag("--ops-only", ops_only, "time the ops and no model");
  app.add_option("--level", options.level,
                 "how much accuracy to trade for speed: none, safe (default), aggressive or extreme");
  app.add_option("--device", options.device, kDeviceHelp);
  app.add_option("--dtype", options.dtype, "precision on a GPU: bf16, f16 or f32 (default: the level's)");
  register_vae_math(app, options.vae_math);
  app.add_option("-t,--threads", options.threads,
                 "number of threads (default: all that this process may use)");
  app.add_flag("--json", json, "print JSON");
  app.short_help({"--output", "--compare", "--model", "--blocks", "--optimisations", "--report-card", "--op",
                  "--ops-only", "--cases", "--level", "--device", "--threads", "--json"});
}

void BenchCommand::prepare() {
  options.device = choose_device(options.device);
  require(card.empty() || options.device != "cpu",
          "--report-card: {} would be about a GPU, and this run is on the CPU; use --device cuda", card);
  if (!baseline.empty()) before = naming("--compare", [&] { return read_bench(baseline); });
  files.output("--output", output), files.output("--report-card", card), files.profile(profile);
  if (!size.empty()) parse_size(size, options.width, options.height);
  options.graphs = !no_graph;
  if (options.model.empty() && !ops_only && !options.blocks) {
    try {
      options.model = shipped_model();
    } catch (const Error& e) {
      warn("bench: no model is timed: {}", e.message());
    }
  }
  if (ops_only) options.model.clear();
  require(!optimisations || (!ops_only && !options.blocks && baseline.empty() && !options.model.empty()),
          "--optimisations: it times steps of a text-to-video model: --ops-only, --blocks and --compare are "
          "not for it");
  options.cases = split(!cases.empty() ? cases : options.device == "cpu" ? "real" : "real,video", ',');
  check_bench(options);
}

int BenchCommand::run_optimisations() {
  StatusLine status(!json);
  const OptimisationTable table =
      bench_optimisations({.model = options.model,
                           .level = options.level,
                           .device = options.device,
                           .threads = options.threads,
                           .rounds = rounds,
                           .width = options.width,
                           .height = options.height,
                           .progress = [&](const std::string& text) { status.show(text); },
                           .cancel = &g_cancel});
  status.clear();
  if (!output.empty()) write_whole(output, json_text(to_json(table), 1) + "\n");
  fmt::print("{}", json ? json_text(to_json(table), 2) + "\n" : spelled(text_of(table)));
  return 0;
}

int BenchCommand::run() {
  if (optimisations) return run_optimisations();
  if (!card.empty()) return run_report_card();
  options.cancel = &g_cancel;
  StatusLine status(!json);
  options.progress = [&](const std::string& text) { status.show(text); };
  BenchReport report = run_bench(options);
  report.version = version();
  status.clear();
  if (!output.empty()) {
    const bool table = output.ends_with(".txt");
    require(!table || !report.blocks.kind.empty(),
            "--output: a table (.txt) can only hold blocks, and none were timed; name a .json file");
    write_whole(output, table ? bench_table(report) : json_text(to_json(report), 1) + "\n");
  }
  if (!profile.empty()) write_whole(profile, chrome_trace(report.events));
  if (json && !before) fmt::print("{}\n", json_text(to_json(report), 2));
  if (!json) print_report(report);
  if (before && relative > 0) return print_relative(*before, report, relative, json) ? kExitMiss : 0;
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
          "same run.\n"
          "For a model that makes videos block by block, whole blocks are timed, then a few more by "
          "component\n"
          "(attention, norm, feed-forward, actions, cache, decode, copy, other): mean, median, P95, share.\n"
          "On a GPU whole blocks run as CUDA graphs, and components are timed launch by launch.\n") +
      kCompared +
      "\nExamples:\n"
      "  tachyscope bench -o today.json\n"
      "  tachyscope bench --compare today.json --strict\n"
      "  tachyscope bench --op gemm --threads 1 --seconds 0.5\n"
      "  tachyscope bench --device cuda --op rmsnorm\n"
      "  tachyscope bench --op model --model Wan2.1-T2V-1.3B\n"
      "  tachyscope bench --optimisations --level extreme");
  return [command] {
    command->prepare();
    return command->run();
  };
}

namespace {

// Returns options that time again what an earlier report timed, for a model that makes videos block by block.
BenchCommand timed_like(const BenchReport& before) {
  const BenchBlocks& b = before.blocks;
  require(!b.kind.empty(),
          "after: name a later report, since the earlier one has no blocks that could be timed now; "
          "`tachyscope bench --compare` times ops and a model's step again");
  BenchCommand now;
  now.options.blocks = static_cast<int>(b.blocks), now.options.width = b.width, now.options.height = b.height;
  now.options.window = static_cast<int>(b.window), now.options.steps = b.steps;
  now.options.level = before.level, now.options.vae_math = before.vae_math;
  if (before.gpu.name.empty())
    now.options.threads = std::min(before.threads, available_processors());
  else
    now.options.dtype = before.gpu.dtype, now.no_graph = !b.graphs;
  return now;
}

}  // namespace

Command add_compare(CommandLine& line) {
  struct Options {
    std::string before, after, model, device;
    bool json = false, strict = false;
    double relative = 0;
  };
  CommandOptions sub =
      line.add_command("compare", "compare two reports of `bench --output`, or time the blocks of one again");
  auto o = std::make_shared<Options>();
  sub.add_option("before", o->before, "earlier report")->required();
  sub.add_option("after", o->after, "later report (default: the blocks of --model are timed now)");
  sub.add_option("-m,--model", o->model,
                 "folder of a model whose blocks are timed now, with the size, window, steps and level of "
                 "the earlier report");
  sub.add_option("--device", o->device, kDeviceHelp);
  sub.add_flag("--strict", o->strict, "fail (exit code 10) when a line is slower");
  sub.add_option("--relative", o->relative,
                 "for reports of blocks from different machines: fail (exit code 10) when a component has "
                 "become this many times slower than the others, or a block than the machine's multiply-adds")
      ->check(between(1, 1000));
  sub.add_flag("--json", o->json, "print JSON");
  sub.footer(std::string(kCompared) +
             "\nFor blocks, the changes of mean, median and P95 are printed.\nExamples:\n"
             "  tachyscope compare before.json after.json\n"
             "  tachyscope compare tests/baseline_performance.txt --model models/world --relative 3");
  return [o] {
    const BenchReport before = read_bench(o->before);
    if (!o->after.empty()) {
      require(
          o->model.empty(),
          "--model: nothing is timed when two reports are compared; leave out --model or the later report");
      if (o->relative > 0)
        return print_relative(before, read_bench(o->after), o->relative, o->json) ? kExitMiss : 0;
      const bool slower = print_comparison(before, read_bench(o->after), o->json);
      return slower && o->strict ? kExitMiss : 0;
    }
    BenchCommand now = timed_like(before);
    require(!o->model.empty(), "--model: give the model whose blocks to time, or name a later report");
    now.options.model = o->model, now.options.device = o->device;
    now.json = o->json, now.strict = o->strict, now.relative = o->relative;
    now.prepare();
    now.before = before;
    return now.run();
  };
}

}  // namespace tachy::cli
