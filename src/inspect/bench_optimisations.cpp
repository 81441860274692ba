#include "inspect/bench_optimisations.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/os/time.h"
#include "cpu/machine.h"
#include "engine/text_to_video.h"
#include "session/stage_clock.h"

namespace tachy {
namespace {

using nlohmann::json;

constexpr int kSteps = 5, kStepsOfACache = 20;
constexpr int kSettled = 2;  // on a GPU the first step of a graph runs uncaptured, and the second is captured

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n == 0 ? 0 : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// On a CPU this is the process's own time on all processors, in which other users of the machine show little;
// on a GPU it is the time by the clock.
double seconds_of(const cuda::Gpu* gpu) { return gpu ? monotonic_seconds() : os::processor_seconds(); }

// A way of running, given by the names of the optimisations that are off.
struct Variant {
  std::vector<std::string> off;
  std::vector<double> step_ms;  // a value for each round
};

class Rounds {
 public:
  explicit Rounds(const OptimisationBench& options)
      : options_(options),
        pipeline_(ModelBundle::open(options.model),
                  {.threads = options.threads, .keep_loaded = true, .device = options.device}) {
    request_.prompt = "a prompt of ordinary length, for the memory of its keys and values";
    request_.level = options.level;
    if (options.width > 0) request_.width = options.width, request_.height = options.height;
    resolved_ = pipeline_.resolved(request_).request;
    request_.steps = *resolved_.step_cache > 0 ? kStepsOfACache : kSteps + (pipeline_.gpu() ? kSettled : 0);
  }

  VideoRequest request_of(const std::vector<std::string>& off) const {
    VideoRequest r = request_;
    for (const std::string& name : off) {
      if (name == "`dtype`")
        r.dtype = "f32";
      else if (name == "`residual`")
        r.residual = "f32";
      else if (name == "`math`")
        r.math = "bf16";
      else if (name == "`attention`")
        r.attention = "bf16";
      else
        r.without.push_back(name);
    }
    // A residual stream and products with fewer bits need activations in 16 bits.
    if (r.dtype == "f32") r.residual.reset(), r.math = "auto";
    return r;
  }
  VideoPlan plan(const std::vector<std::string>& off) { return pipeline_.plan(request_of(off)); }

  // Returns the mean time of a run's steps after the first ones, in which graphs are captured and work is
  // done that all steps share.
  double step_ms(const std::vector<std::string>& off) {
    VideoCallbacks callbacks{.cancel = options_.cancel};
    const int first = pipeline_.gpu() ? kSettled : 1;
    double begin = 0, end = 0;
    callbacks.progress = [&](const Progress& p) {
      if (p.stage != "denoise") return;
      if (p.done == first) begin = seconds_of(pipeline_.gpu());
      if (p.done == p.total) end = seconds_of(pipeline_.gpu());
    };
    pipeline_.generate(request_of(off), callbacks);
    return 1e3 * (end - begin) / (*request_.steps - first);
  }

  const VideoRequest& resolved() const { return resolved_; }
  const TextToVideo& pipeline() const { return pipeline_; }
  int steps() const { return *request_.steps; }

 private:
  const OptimisationBench& options_;
  TextToVideo pipeline_;
  VideoRequest request_, resolved_;
};

// If only a plain kernel could replace an optimised one, a step would take minutes.
bool too_slow(const VideoPlan& plan) {
  for (const StagePlan& s : plan.stages)
    for (const ops::OpPick& p : s.picks)
      if (s.name == "denoise" && p.op == "attention" && (p.impl == "ref" || p.impl == "cuda_plain"))
        return true;
  return false;
}

std::vector<std::string> names_to_try(Rounds& rounds, OptimisationTable& table) {
  std::vector<std::string> out;
  for (const OptimisationState& s : rounds.plan({}).optimisations) {
    if (!s.on) continue;
    if (s.name == "conv-norms")
      table.left_out.push_back(s.name + ": it is the VAE's and no step's");
    else if (s.name.find(':') != s.name.npos && too_slow(rounds.plan({s.name})))
      table.left_out.push_back(s.name + ": only plain loops could take its place");
    else
      out.push_back(s.name);
  }
  return out;
}

std::vector<std::string> all_but(const std::vector<std::string>& names, const std::string& one) {
  std::vector<std::string> out;
  std::ranges::copy_if(names, std::back_inserter(out), [&](const std::string& n) { return n != one; });
  return out;
}

// Returns above / below for each round.
std::vector<double> ratios(const Variant& above, const Variant& below) {
  std::vector<double> out;
  for (size_t i = 0; i < above.step_ms.size(); ++i) out.push_back(above.step_ms[i] / below.step_ms[i]);
  return out;
}

}  // namespace

OptimisationTable bench_optimisations(const OptimisationBench& options) {
  require(options.rounds >= 1, "`rounds`: expected at least 1, got {}", options.rounds);
  OptimisationTable table{.level = options.level, .rounds = options.rounds};
  Rounds rounds(options);
  const std::vector<std::string> names = names_to_try(rounds, table);
  const size_t n = names.size();
  std::vector<Variant> variants(2 + 2 * n);  // everything, nothing, all but each, only each
  variants[1].off = names;
  for (size_t i = 0; i < n; ++i)
    variants[2 + i].off = {names[i]}, variants[2 + n + i].off = all_but(names, names[i]);
  for (int round = -1; round < options.rounds; ++round)  // the first round loads and warms up
    for (size_t k = 0; k < variants.size(); ++k) {
      // Each round begins with another variant, so that none is always the first.
      const size_t shift = round < 0 ? 0 : static_cast<size_t>(round) * 3;
      Variant& v = variants[(k + shift) % variants.size()];
      if (options.progress)
        options.progress(
            fmt::format("round {} of {}: {} of {} ways", round + 1, options.rounds, k + 1, variants.size()));
      const double ms = rounds.step_ms(v.off);
      if (round >= 0) v.step_ms.push_back(ms);
    }
  const Variant &all = variants[0], &bare = variants[1];
  for (size_t i = 0; i < n; ++i) {
    const std::vector<double> r = ratios(variants[2 + i], all);
    table.gains.push_back({.name = names[i],
                           .with_others = median(r),
                           .least = *std::ranges::min_element(r),
                           .most = *std::ranges::max_element(r),
                           .alone = median(ratios(bare, variants[2 + n + i]))});
  }
  table.together = median(ratios(bare, all));
  table.step_ms = median(all.step_ms), table.bare_ms = median(bare.step_ms);
  const VideoRequest& r = rounds.resolved();
  table.model = options.model.filename().string();
  table.size = fmt::format("{}x{}x{}", *r.frames, *r.height, *r.width);
  table.steps = rounds.steps(), table.threads = rounds.pipeline().threads();
  const cuda::Gpu* gpu = rounds.pipeline().gpu();
  table.device = gpu ? "cuda" : "cpu";
  table.machine = gpu ? gpu->info().name : cpu::describe_machine().cpu;
  return table;
}

json to_json(const OptimisationTable& t) {
  json gains = json::array();
  for (const OptimisationGain& g : t.gains)
    gains.push_back({{"name", g.name},
                     {"with_others", g.with_others},
                     {"least", g.least},
                     {"most", g.most},
                     {"alone", g.alone}});
  return {{"model", t.model},      {"size", t.size},       {"level", t.level},       {"device", t.device},
          {"machine", t.machine},  {"threads", t.threads}, {"steps", t.steps},       {"rounds", t.rounds},
          {"step_ms", t.step_ms},  {"bare_ms", t.bare_ms}, {"together", t.together}, {"optimisations", gains},
          {"left_out", t.left_out}};
}

std::string text_of(const OptimisationTable& t) {
  std::string out = fmt::format(
      "{}, {}, level {}, {} ({} thread{}), {} of a step in runs of {} steps, medians of ratios of {} "
      "rounds\n\n"
      "| optimisation | a step without it takes (least to most) | alone it makes a bare step faster by |\n"
      "| --- | --- | --- |\n",
      t.model, t.size, t.level, t.machine, t.threads, t.threads == 1 ? "" : "s",
      t.device == "cpu" ? "processor time" : "time", t.steps, t.rounds);
  for (const OptimisationGain& g : t.gains)
    out += fmt::format("| {} | {:.3f}x ({:.3f} to {:.3f}) | {:.3f}x |\n", g.name, g.with_others, g.least,
                       g.most, g.alone);
  out += fmt::format("| all of them together | {:.3f}x ({:.1f} ms in place of {:.1f}) | {:.3f}x |\n",
                     t.together, t.bare_ms, t.step_ms, t.together);
  for (const std::string& what : t.left_out) out += fmt::format("not tried: {}\n", what);
  return out;
}

}  // namespace tachy
