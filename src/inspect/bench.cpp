#include "inspect/bench.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/run_profiler.h"
#include "cuda/gpu_facts.h"
#include "cuda/open_device.h"
#include "ops/features.h"
#include "pipelines/gpu_mode.h"
#include "pipelines/stage_clock.h"
#include "pipelines/text_to_video.h"

namespace tachy {
namespace {

using nlohmann::json;

constexpr double kLeastThreshold = 0.05;
constexpr double kNoiseFactor = 3;
constexpr int kModelSteps = 5;

void say(const BenchOptions& options, const std::string& text) {
  if (options.progress) options.progress(text);
  if (options.cancel && options.cancel->load()) fail(ErrorCode::cancelled, "cancelled");
}

bool wants(const BenchOptions& options, const char* kind) {
  return std::find(options.cases.begin(), options.cases.end(), kind) != options.cases.end();
}

void judge(BenchLine& line, double bytes, double flops, bool bf16, const cpu::Roofline& roofline) {
  const double seconds = line.median_us * 1e-6, least = roofline.seconds(bytes, flops, bf16);
  if (seconds <= 0 || least <= 0) return;
  line.roofline = least / seconds;
  line.bound = roofline.seconds(bytes, 0, bf16) >= roofline.seconds(0, flops, bf16) ? "memory" : "compute";
}

void judge(BenchLine& line, double bytes, double flops, const BenchGpu& gpu) {
  const double seconds = line.median_us * 1e-6, least = gpu.seconds(bytes, flops);
  if (seconds <= 0 || least <= 0) return;
  line.roofline = least / seconds;
  line.bound = gpu.seconds(bytes, 0) >= gpu.seconds(0, flops) ? "memory" : "compute";
}

void bench_ops(const BenchOptions& options, const Mode& mode, cuda::Gpu* gpu, BenchReport& report) {
  const GpuCeilings ceilings{report.gpu.copy_gb_per_s, report.gpu.matmul_gflops, ""};
  OpRunnerOptions run{
      .filter = options.filter,
      .ref = false,
      .bitwise = false,
      .canary = false,
      .perf = true,
      .tiny = wants(options, "tiny"),
      .odd = wants(options, "odd"),
      .real = wants(options, "real"),
      .video = wants(options, "video"),
      .threads = report.threads,
      .perf_seconds = options.seconds_per_case,
      .gpu = gpu,
      .dtype = gpu ? gpu_mode(options.level, options.dtype, gpu->info().capability()).activation : DType::f32,
      .capture = false,
      .ceilings = &ceilings,
      .picked_only = !options.all_implementations,
      .definitions = mode.reference,
      .max_perf_flops = options.large || gpu ? 1e15 : kLargeFlops};
  run.started = [&](const ops::OpCase& c) { say(options, c.op + " " + c.name); };
  for (const OpResult& r : run_ops(run)) {
    if (r.skipped || !r.ok) continue;
    if (!gpu && r.compute == Compute::bf16 && ops::why_no_bf16()) continue;  // runs as its float32 twin does
    BenchLine line{.id = r.id(),
                   .median_us = r.median_us,
                   .spread = r.spread,
                   .repeats = r.repeats,
                   .gb_per_s = r.gb_per_s,
                   .gflops = r.gflops};
    if (gpu)
      judge(line, r.bytes, r.flops, report.gpu);
    else
      judge(line, r.bytes, r.flops, r.compute == Compute::bf16, report.all);
    report.lines.push_back(line);
  }
}

BenchLine line_of(const std::string& id, std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  const size_t n = times_us.size();
  BenchLine line{.id = id, .median_us = times_us[n / 2], .repeats = static_cast<int>(n)};
  line.spread = (times_us[n * 3 / 4] - times_us[n / 4]) / 2 / line.median_us;
  return line;
}

BenchLine line_of(const std::string& id, std::vector<double> times_us, double flops, bool bf16,
                  const cpu::Roofline& roofline) {
  BenchLine line = line_of(id, std::move(times_us));
  if (flops > 0) {
    line.gflops = flops / line.median_us * 1e-3;
    judge(line, 0, flops, bf16, roofline);
  }
  return line;
}

// Two runs of the model's default video with few steps; the first warms up. The second loads nothing.
void bench_model(const BenchOptions& options, BenchReport& report) {
  say(options, "model " + options.model.string());
  TextToVideo pipeline(ModelBundle::open(options.model), {.threads = report.threads, .keep_loaded = true});
  VideoRequest request;
  request.prompt = "a prompt of ordinary length, for the memory of its keys and values";
  request.steps = kModelSteps;
  request.level = options.level;
  request.step_cache = 0;  // a skipped step is no measure of a step
  const VideoPlan plan = pipeline.plan(request);
  HostProfiler profiler;
  VideoCallbacks callbacks{.cancel = options.cancel};
  const auto loads = [&](const HostProfiler& p) {
    for (const ProfileEvent& e : p.events())
      if (e.kind == ProfileKind::load)
        report.lines.push_back(
            line_of(std::string("model:") + e.name, {e.end_us - e.start_us}, 0, false, report.all));
  };
  {
    HostProfiler first;
    callbacks.profiler = &first;
    request.frames = 1;
    pipeline.generate(request, callbacks);
    loads(first);
    request.frames.reset();
  }
  callbacks.profiler = &profiler;
  const ResolvedRequest done = pipeline.generate(request, callbacks);
  std::map<std::string, std::vector<double>> times;
  for (const ProfileEvent& e : profiler.events()) times[e.name].push_back(e.end_us - e.start_us);
  const auto flops = [&](const char* stage) {
    for (const StagePlan& s : plan.stages)
      if (s.name == stage) return s.flops;
    return 0.0;
  };
  const bool bf16 = *done.request.dtype == "bf16" && !ops::why_no_bf16();
  const auto size = fmt::format("{}x{}x{}", *done.request.frames, *done.request.height, *done.request.width);
  // The plan's flops of a stage hold what is done once before the steps; for a step that is little.
  report.lines.push_back(
      line_of("model:text encoder", times["text encoder"], flops("text"), bf16, report.all));
  report.lines.push_back(
      line_of("model:step " + size, times["step"], flops("denoise") / kModelSteps, bf16, report.all));
  report.lines.push_back(line_of("model:decode " + size, times["decode"], flops("decode"), bf16, report.all));
  for (const char* part : {"self-attention", "cross-attention", "feed-forward"})
    if (times.contains(part))
      report.lines.push_back(
          line_of(fmt::format("model:block, {} {}", part, size), times[part], 0, bf16, report.all));
}

constexpr int kGpuSteps = 7;  // the first runs as it is, the second is captured: five replays
constexpr int kMostRuns = 5;
constexpr double kEnoughSeconds = 3;

// Whole generations of the model's default video with few steps: timed from outside, then once more with CUDA
// events for the parts. Loads nothing after the first.
void bench_model_on_gpu(const BenchOptions& options, BenchReport& report) {
  say(options, "model " + options.model.string());
  TextToVideo pipeline(ModelBundle::open(options.model),
                       {.threads = report.threads, .keep_loaded = true, .device = options.device});
  VideoRequest request;
  request.prompt = "a prompt of ordinary length, for the memory of its keys and values";
  request.steps = kGpuSteps;
  request.level = options.level;
  if (!options.dtype.empty()) request.dtype = options.dtype;
  request.step_cache = 0;
  const VideoPlan plan = pipeline.plan(request);
  const auto flops = [&](const char* stage) {
    for (const StagePlan& s : plan.stages)
      if (s.name == stage) return s.flops;
    return 0.0;
  };
  std::map<std::string, std::vector<double>> times;
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
    for (const ProfileEvent& e : first.events())
      if (e.kind == ProfileKind::load)
        report.lines.push_back(line_of(std::string("model:") + e.name, {e.end_us - e.start_us}));
  }
  ResolvedRequest done = generate(nullptr, false);  // libraries have chosen, captures are warm
  const double start = monotonic_seconds();
  for (int i = 0; i < kMostRuns && (i == 0 || monotonic_seconds() - start < kEnoughSeconds); ++i) {
    say(options, fmt::format("model, run {}", i + 1));
    done = generate(nullptr, true);
  }
  const auto size = fmt::format("{}x{}x{}", *done.request.frames, *done.request.height, *done.request.width);
  const auto add = [&](const std::string& id, const char* what, double work) {
    if (!times.contains(what)) return;
    BenchLine line = line_of(id, times[what]);
    line.gflops = work / line.median_us * 1e-3;
    judge(line, 0, work, report.gpu);
    report.lines.push_back(line);
  };
  add("model:text encoder", "text", flops("text"));
  add("model:step " + size, "step", flops("denoise") / kGpuSteps);
  add("model:decode " + size, "decode", flops("decode"));
  add(fmt::format("model:generation, {} steps {}", kGpuSteps, size), "generation", 0);
  RunProfiler profiler;
  generate(&profiler, false);
  std::map<std::string, std::vector<double>> parts;
  for (const ProfileEvent& e : profiler.all_events())
    if (on_device(e)) parts[e.name].push_back(e.end_us - e.start_us);
  for (const char* part : {"self-attention", "cross-attention", "feed-forward"})
    if (parts.contains(part))
      report.lines.push_back(line_of(fmt::format("model:block, {} {}", part, size), parts[part]));
}

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

json roofline_json(const cpu::Roofline& r) {
  json copies = json::array();
  for (const auto& c : r.copies) copies.push_back({{"bytes", c.bytes}, {"gb_per_s", c.gb_per_s}});
  return {{"threads", r.threads},
          {"f32_gflops", r.f32_gflops},
          {"bf16_gflops", r.bf16_gflops},
          {"bf16_how", r.bf16_how},
          {"copies", copies}};
}

cpu::Roofline roofline_from(const json& j) {
  cpu::Roofline r{.threads = j.at("threads").get<int>(),
                  .f32_gflops = j.at("f32_gflops").get<double>(),
                  .bf16_gflops = j.at("bf16_gflops").get<double>(),
                  .bf16_how = j.at("bf16_how").get<std::string>()};
  for (const json& c : j.at("copies"))
    r.copies.push_back({c.at("bytes").get<double>(), c.at("gb_per_s").get<double>()});
  return r;
}

}  // namespace

double BenchGpu::seconds(double bytes, double flops) const {
  return std::max(copy_gb_per_s > 0 ? bytes / copy_gb_per_s * 1e-9 : 0,
                  matmul_gflops > 0 ? flops / matmul_gflops * 1e-9 : 0);
}

void check_bench(const BenchOptions& options) {
  require(options.threads >= 0 && options.threads <= 1024, "--threads: expected 0 (all) to 1024, got {}",
          options.threads);
  require(options.seconds_per_case > 0 && options.seconds_per_case <= 60,
          "--seconds: expected above 0 to 60 a case, got {}", options.seconds_per_case);
  for (const std::string& kind : options.cases)
    require(kind == "tiny" || kind == "odd" || kind == "real" || kind == "video",
            "--cases: expected some of tiny, odd, real, video, got '{}'", kind);
  find_level(options.level);
  cuda::check_device_name(options.device);
  if (options.device == "cpu")
    require(options.dtype.empty(), "--dtype: it is of a GPU's activations; got {} in a run on the CPU",
            options.dtype);
  else
    gpu_mode(options.level, options.dtype);
  if (!options.model.empty()) naming("--model", [&] { ModelBundle::open(options.model); });
}

BenchReport run_bench(const BenchOptions& options) {
  check_bench(options);
  const Mode mode = find_level(options.level).mode;
  BenchReport report{.level = options.level,
                     .threads = options.threads > 0 ? options.threads : available_processors(),
                     .machine = cpu::describe_machine()};
  const bool model_only = options.filter == "model";
  const bool time_ops = options.ops && !model_only,
             time_model = !options.model.empty() && (options.filter.empty() || model_only);
  const auto gpu = cuda::open_device(options.device);
  say(options, "roofline");
  ThreadPool one(1), all(report.threads);
  if (gpu) {
    const DType dtype = gpu_mode(options.level, options.dtype, gpu->info().capability()).activation;
    const GpuCeilings ceilings = measure_ceilings(*gpu, dtype, all);
    report.gpu = {.name = gpu->info().name,
                  .capability = fmt::format("{}.{}", gpu->info().major, gpu->info().minor),
                  .driver = cuda::driver_version(),
                  .cuda = cuda::cuda_version(gpu->info().runtime),
                  .dtype = std::string(dtype_name(dtype)),
                  .libraries = cuda::vendor_libraries(*gpu),
                  .copy_gb_per_s = ceilings.copy_gb_per_s,
                  .matmul_gflops = ceilings.matmul_gflops};
    if (time_ops) bench_ops(options, mode, gpu.get(), report);
    if (time_model) bench_model_on_gpu(options, report);
    return report;
  }
  report.one = cpu::measure_roofline(one), report.all = cpu::measure_roofline(all);
  if (time_ops) bench_ops(options, mode, nullptr, report);
  if (time_model) bench_model(options, report);
  return report;
}

json to_json(const BenchReport& report) {
  json lines = json::array();
  for (const BenchLine& l : report.lines)
    lines.push_back({{"id", l.id},
                     {"median_us", l.median_us},
                     {"spread", l.spread},
                     {"repeats", l.repeats},
                     {"gb_per_s", l.gb_per_s},
                     {"gflops", l.gflops},
                     {"roofline", l.roofline},
                     {"bound", l.bound}});
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
  return out;
}

BenchReport bench_from_json(const json& j, const std::string& name) {
  try {
    BenchReport r;
    check(j.is_object() && j.value("kind", "") == "bench", ErrorCode::corrupt,
          "{}: expected a report of `tachyscope bench --output`", name);
    r.version = j.at("tachyscope").get<std::string>(), r.level = j.at("level").get<std::string>();
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
                         .bound = l.at("bound").get<std::string>()});
      const BenchLine& line = r.lines.back();
      check(std::isfinite(line.median_us) && line.median_us > 0 && line.spread >= 0, ErrorCode::corrupt,
            "{}: '{}' has a median of {} us and a spread of {}", name, line.id, line.median_us, line.spread);
    }
    return r;
  } catch (const json::exception& e) {
    fail(ErrorCode::corrupt, "{}: {}", name, e.what());
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
