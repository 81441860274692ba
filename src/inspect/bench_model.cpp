// Times a model's own stages: loading, the text encoder, a step and its parts, decoding.
#include <map>

#include "base/run_profiler.h"
#include "engine/text_to_video.h"
#include "inspect/bench_lines.h"
#include "ops/features.h"
#include "session/stage_clock.h"

namespace tachy {
namespace {

using Times = std::map<std::string, std::vector<double>>;  // microseconds, by the name of the work that took
                                                           // them

constexpr int kModelSteps = 5;
constexpr int kGpuSteps = 7;  // the first step runs uncaptured, the second is captured: five replays remain
constexpr int kMostRuns = 5;
constexpr double kEnoughSeconds = 3;

// Requests the model's default video with few steps.
VideoRequest few_steps(const BenchOptions& options, int steps) {
  VideoRequest request;
  request.prompt = "a prompt of ordinary length, for the memory of its keys and values";
  request.steps = steps;
  request.level = options.level;
  request.vae_math = options.vae_math;
  request.step_cache = 0;  // the time of a skipped step would not be that of a step
  return request;
}

double flops_of(const VideoPlan& plan, const char* stage) {
  for (const StagePlan& s : plan.stages)
    if (s.name == stage) return s.flops;
  return 0.0;
}

std::string size_of(const VideoRequest& r) { return fmt::format("{}x{}x{}", *r.frames, *r.height, *r.width); }

void add_loads(const HostProfiler& profiler, BenchReport& report) {
  for (const ProfileEvent& e : profiler.events())
    if (e.kind == ProfileKind::load)
      report.lines.push_back(line_of(std::string("model:") + e.name, {e.end_us - e.start_us}));
}

void add_blocks(const Times& times, const std::string& size, BenchReport& report) {
  for (const char* part : {"self-attention", "cross-attention", "feed-forward"})
    if (const auto at = times.find(part); at != times.end())
      report.lines.push_back(line_of(fmt::format("model:block, {} {}", part, size), at->second));
}

}  // namespace

// Makes two runs of the model's default video with few steps. The first warms up; the second loads nothing.
void bench_model(const BenchOptions& options, BenchReport& report) {
  say(options, "model " + options.model.string());
  TextToVideo pipeline(ModelBundle::open(options.model), {.threads = report.threads, .keep_loaded = true});
  VideoRequest request = few_steps(options, kModelSteps);
  const VideoPlan plan = pipeline.plan(request);
  HostProfiler profiler;
  VideoCallbacks callbacks{.cancel = options.cancel};
  {
    HostProfiler first;
    callbacks.profiler = &first;
    request.frames = 1;
    pipeline.generate(request, callbacks);
    add_loads(first, report);
    request.frames.reset();
  }
  callbacks.profiler = &profiler;
  const ResolvedRequest done = pipeline.generate(request, callbacks);
  Times times;
  for (const ProfileEvent& e : profiler.events()) times[e.name].push_back(e.end_us - e.start_us);
  const bool bf16 = *done.request.dtype == "bf16" && !ops::why_no_bf16();
  const std::string size = size_of(done.request);
  // A stage's planned flops include work that is done once before the steps; that is little compared with the
  // steps.
  report.lines.push_back(
      line_of("model:text encoder", times["text encoder"], flops_of(plan, "text"), bf16, report.all));
  report.lines.push_back(line_of("model:step " + size, times["step"], flops_of(plan, "denoise") / kModelSteps,
                                 bf16, report.all));
  report.lines.push_back(
      line_of("model:decode " + size, times["decode"], flops_of(plan, "decode"), bf16, report.all));
  add_blocks(times, size, report);
}

// Makes whole generations of the model's default video with few steps: some are timed from outside, then one
// is timed by CUDA events for the parts. Nothing is loaded after the first one.
void bench_model_on_gpu(const BenchOptions& options, BenchReport& report) {
  say(options, "model " + options.model.string());
  TextToVideo pipeline(ModelBundle::open(options.model),
                       {.threads = report.threads, .keep_loaded = true, .device = options.device});
  VideoRequest request = few_steps(options, kGpuSteps);
  if (!options.dtype.empty()) request.dtype = options.dtype;
  const VideoPlan plan = pipeline.plan(request);
  Times times;
  const auto generate = [&](Profiler* profiler, bool timed) {
    VideoCallbacks callbacks{.cancel = options.cancel};
    callbacks.profiler = profiler;
    const double start = monotonic_seconds();
    double before = start;
    callbacks.progress = [&](const Progress& p) {
      const double now = monotonic_seconds();
      if (timed && p.stage == "denoise" && p.done > 2) times["step"].push_back(1e6 * (now - before));
      if (timed && p.done == p.total && p.stage != "denoise")
        times[p.stage].push_back(1e6 * p.elapsed_seconds);
      before = now;
    };
    const ResolvedRequest done = pipeline.generate(request, callbacks);
    if (timed) times["generation"].push_back(1e6 * (monotonic_seconds() - start));
    return done;
  };
  {
    HostProfiler first;
    generate(&first, false);
    add_loads(first, report);
  }
  ResolvedRequest done = generate(nullptr, false);  // by now libraries have chosen their kernels, and graphs
                                                    // have been captured
  const double start = monotonic_seconds();
  for (int i = 0; i < kMostRuns && (i == 0 || monotonic_seconds() - start < kEnoughSeconds); ++i) {
    say(options, fmt::format("model, run {}", i + 1));
    done = generate(nullptr, true);
  }
  const std::string size = size_of(done.request);
  const auto add = [&](const std::string& id, const char* what, double work) {
    if (!times.contains(what)) return;
    BenchLine line = line_of(id, times[what]);
    line.gflops = work / line.median_us * 1e-3;
    judge(line, 0, work, report.gpu);
    report.lines.push_back(line);
  };
  add("model:text encoder", "text", flops_of(plan, "text"));
  add("model:step " + size, "step", flops_of(plan, "denoise") / kGpuSteps);
  add("model:decode " + size, "decode", flops_of(plan, "decode"));
  add(fmt::format("model:generation, {} steps {}", kGpuSteps, size), "generation", 0);
  RunProfiler profiler;
  generate(&profiler, false);
  Times parts;
  for (const ProfileEvent& e : profiler.all_events())
    if (on_device(e)) parts[e.name].push_back(e.end_us - e.start_us);
  add_blocks(parts, size, report);
}

}  // namespace tachy
