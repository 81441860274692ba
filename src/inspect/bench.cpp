// Turns a bench's options into its report: the roofline, the ops' cases by the op runner, the model's own
// stages.
#include "inspect/bench.h"

#include <algorithm>

#include "base/field.h"
#include "base/os/nvidia.h"
#include "catalog/model_bundle.h"
#include "cuda/gpu_facts.h"
#include "cuda/open_device.h"
#include "inspect/bench_lines.h"
#include "ops/features.h"
#include "request/gpu_mode.h"
#include "request/level.h"
#include "request/request_fields.h"

namespace tachy {
namespace {

bool wants(const BenchOptions& options, const char* kind) {
  return std::find(options.cases.begin(), options.cases.end(), kind) != options.cases.end();
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
    if (!gpu && r.compute == Compute::bf16 && ops::why_no_bf16()) continue;  // it runs like its float32 twin
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

}  // namespace

void check_bench(const BenchOptions& options) {
  check_range("threads", options.threads, kThreadsRange);
  check_range("seconds_per_case", options.seconds_per_case, {.least = 0, .most = 60, .above = true});
  for (const std::string& kind : options.cases)
    require(kind == "tiny" || kind == "odd" || kind == "real" || kind == "video",
            "`cases`: expected some of tiny, odd, real, video, got '{}'", kind);
  find_level(options.level);
  check_choice("vae_math", options.vae_math, vae_math_choices());
  cuda::check_device_name(options.device);
  if (options.device == "cpu")
    require(options.dtype.empty(),
            "`dtype`: it sets the precision on a GPU, and this run is on the CPU (got {}); leave it out, or "
            "choose a GPU with `device` cuda",
            options.dtype);
  else
    gpu_mode(options.level, options.dtype);
  if (options.blocks)
    require(*options.blocks >= 1 && *options.blocks <= 1 << 20, "`blocks`: expected 1 to {}, got {}", 1 << 20,
            *options.blocks);
  require(options.model.empty() == false || !options.blocks,
          "`blocks`: give the `model` whose blocks to time");
  if (options.model.empty()) return;
  const ModelBundle model = naming("`model`", [&] { return ModelBundle::open(options.model); });
  if (times_blocks(model, options)) world_config(model, block_choices(options));
}

bool times_blocks(const ModelBundle& model, const BenchOptions& options) {
  return options.blocks || made_block_by_block(model);
}

WorldChoices block_choices(const BenchOptions& o) {
  return {.width = o.width, .height = o.height, .steps = o.steps, .window = o.window, .shift = {}};
}

BenchReport run_bench(const BenchOptions& options) {
  check_bench(options);
  const Mode mode = find_level(options.level).mode;
  BenchReport report{.level = options.level,
                     .vae_math = options.vae_math,
                     .threads = options.threads > 0 ? options.threads : available_processors(),
                     .machine = cpu::describe_machine()};
  const bool model_only = options.filter == "model";
  std::optional<ModelBundle> world;
  if (!options.model.empty()) {
    ModelBundle model = ModelBundle::open(options.model);
    if (times_blocks(model, options)) world = std::move(model);
  }
  // For a model that makes videos block by block, times only the blocks, unless ops are asked for.
  const bool time_ops = options.ops && !model_only && !(world && options.filter.empty()),
             time_model = !options.model.empty() && (options.filter.empty() || model_only);
  const auto gpu = cuda::open_device(options.device);
  say(options, "roofline");
  ThreadPool one(1), all(report.threads);
  if (gpu) {
    const DType dtype = gpu_mode(options.level, options.dtype, gpu->info().capability()).activation;
    const GpuCeilings ceilings = measure_ceilings(*gpu, dtype, all);
    report.gpu = {.name = gpu->info().name,
                  .capability = fmt::format("{}.{}", gpu->info().major, gpu->info().minor),
                  .driver = os::nvidia_driver_version(),
                  .cuda = cuda::cuda_version(gpu->info().runtime),
                  .dtype = std::string(dtype_name(dtype)),
                  .libraries = cuda::vendor_libraries(*gpu),
                  .copy_gb_per_s = ceilings.copy_gb_per_s,
                  .matmul_gflops = ceilings.matmul_gflops};
    if (time_ops) bench_ops(options, mode, gpu.get(), report);
    if (time_model && world)
      bench_world(options, std::move(*world), gpu->free_bytes(), report);
    else if (time_model)
      bench_model_on_gpu(options, report);
    return report;
  }
  report.one = cpu::measure_roofline(one), report.all = cpu::measure_roofline(all);
  if (time_ops) bench_ops(options, mode, nullptr, report);
  if (time_model && world)
    bench_world(options, std::move(*world), 0, report);
  else if (time_model)
    bench_model(options, report);
  return report;
}

}  // namespace tachy
