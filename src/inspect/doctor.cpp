// Puts a report together from its parts: the machine, the levels, the implementations, the self-test.
#include "inspect/doctor.h"

#include <fmt/core.h>
#include <spdlog/version.h>
#include <utf8proc.h>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
}

#include <algorithm>
#include <map>

#include "base/field.h"
#include "base/os/nvidia.h"
#include "cpu/isa.h"
#include "cuda/gpu_facts.h"
#include "cuda/gpu_family.h"
#include "cuda/open_device.h"
#include "engine/optimisations.h"
#include "engine/text_to_video.h"
#include "inspect/doctor_picks.h"
#include "inspect/op_runner.h"
#include "ops/features.h"
#include "report/example_request.h"
#include "request/precision_of.h"
#include "session/stage_clock.h"
#include "worlds/world_session.h"

namespace tachy {
namespace {

std::string version_of(unsigned v) { return fmt::format("{}.{}.{}", v >> 16, v >> 8 & 0xff, v & 0xff); }

// Lists the CPU's libraries, and the others that this program is linked with.
std::vector<std::pair<std::string, std::string>> linked_libraries(const cpu::Machine& machine) {
  auto libraries = machine.libraries;
  libraries.insert(
      libraries.end(),
      {{"libavcodec", version_of(avcodec_version())},
       {"libavformat", version_of(avformat_version())},
       {"utf8proc", utf8proc_version()},
       {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
       {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
       {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                     NLOHMANN_JSON_VERSION_PATCH)}});
  return libraries;
}

std::vector<LevelState> describe_levels(const std::string& active, const std::string& dtype,
                                        const cuda::Gpu* gpu) {
  std::vector<LevelState> out;
  if (gpu) {
    for (const GpuLevel& level : gpu_levels()) {
      const GpuMode here = gpu_mode(level.name, level.name == active ? dtype : "", gpu->info().capability());
      std::string text =
          fmt::format("activations {}, residual stream {}, CUDA graphs {}", dtype_name(here.activation),
                      dtype_name(here.residual), here.graphs ? "on" : "off");
      if (here.products == Products::e4m3) text += ", linear layers in fp8";
      if (here.step_cache > 0) text += fmt::format(", step cache with threshold {}", here.step_cache);
      out.push_back({level.name, level.means, text, level.name == active});
    }
    return out;
  }
  const auto no_bf16 = ops::why_no_bf16();
  for (const Level& level : levels()) {
    std::string here = "as named";
    if (level.mode.compute == Compute::bf16 && no_bf16) here = "float32 in place of bf16: " + no_bf16->text();
    if (level.mode.step_cache > 0)
      here += fmt::format("; step cache with threshold {}", level.mode.step_cache);
    out.push_back({level.name, level.means, here, level.name == active});
  }
  return out;
}

// Lists the optimisations for a request that only sets the level.
std::vector<OptimisationState> optimisations_at(const std::string& level, const std::string& dtype,
                                                const cuda::Gpu* gpu) {
  if (!gpu) {
    Mode mode = find_level(level).mode;
    if (ops::why_no_bf16()) mode.compute = Compute::f32;
    return optimisation_states(
        {.definitions = mode.reference, .precision = precision_of(mode), .step_cache = mode.step_cache});
  }
  const GpuMode mode = gpu_mode(level, dtype, gpu->info().capability());
  return optimisation_states({.gpu = true,
                              .hopper = gpu->info().major == 9,
                              .precision = precision_of(mode),
                              .graphs = mode.graphs,
                              .step_cache = mode.step_cache});
}

void describe_gpu(cuda::Gpu& gpu, GpuState& state) {
  const cuda::GpuInfo& i = gpu.info();
  state.index = i.index, state.name = i.name, state.capability = fmt::format("{}.{}", i.major, i.minor);
  const cuda::GpuFamily& family = cuda::family_of(i);
  state.family = fmt::format("{} ({})", family.name, family.gpus), state.measured = family.measured;
  state.multiprocessors = i.multiprocessors;
  state.memory_bytes = i.memory_bytes, state.free_bytes = gpu.free_bytes(), state.l2_bytes = i.l2_bytes;
  state.driver = os::nvidia_driver_version();
  state.cuda = fmt::format("{} (the driver takes up to {})", cuda::cuda_version(i.runtime),
                           cuda::cuda_version(i.driver));
}

}  // namespace

VideoPlan model_plan(const std::filesystem::path& model, const std::string& level, int threads,
                     const std::string& device, const std::string& dtype) {
  ModelBundle bundle = naming("`model`", [&] { return ModelBundle::open(model); });
  const ModelOptions options{.threads = threads, .device = device};
  if (bundle.family->actions)
    return WorldSession::plan_of(std::make_shared<Model>(std::move(bundle), options),
                                 {.level = level, .dtype = dtype});
  VideoRequest request = example_request(bundle);
  request.level = level;
  if (!dtype.empty()) request.dtype = dtype;
  TextToVideo pipeline(std::move(bundle), options);
  Resolved resolved = pipeline.resolved(request);  // from here on, only the lengths matter
  if (request.speech) resolved.speech = request.speech->samples;
  const int64_t side = pipeline.model().clip.image_size;
  resolved.clip_pixels.resize(static_cast<size_t>(resolved.clip_pictures * 3 * side * side));
  return pipeline.prepare(std::move(resolved)).plan;
}

bool DoctorReport::ok() const {
  return std::all_of(ops.begin(), ops.end(), [](const OpHealth& h) { return h.ok; });
}

std::string compiled_for() { return cpu::compiled_for(); }
std::string gpu_kernels() { return cuda::kernels_of_build(); }

DoctorReport run_doctor(const std::string& level, int threads, const std::string& device,
                        const std::string& dtype_name_or_empty, const std::filesystem::path& model) {
  check_range("threads", threads, kThreadsRange);
  const Mode mode = find_level(level).mode;
  const std::string chosen = cuda::choose_device(device);
  const auto gpu = cuda::open_device(chosen);
  require(gpu || dtype_name_or_empty.empty(),
          "`dtype`: it sets the precision on a GPU, and this run is on the CPU (got {}); leave it out, or "
          "choose a GPU with `device` cuda",
          dtype_name_or_empty);
  const DType dtype =
      gpu ? gpu_mode(level, dtype_name_or_empty, gpu->info().capability()).activation : DType::f32;
  DoctorReport report{.machine = cpu::describe_machine(),
                      .level = level,
                      .device = chosen,
                      .levels = describe_levels(level, dtype_name_or_empty, gpu.get())};
  report.optimisations = optimisations_at(level, dtype_name_or_empty, gpu.get());
  if (!model.empty()) {
    VideoPlan plan = model_plan(model, level, threads, chosen, dtype_name_or_empty);
    report.model = std::move(plan.stages);
    if (!plan.optimisations.empty()) report.optimisations = std::move(plan.optimisations);
  }
  if (gpu) {
    describe_gpu(*gpu, report.gpu);
    report.gpu.dtype = dtype_name(dtype);
    report.gpu.libraries = cuda::vendor_libraries(*gpu);
  } else if (cuda::gpu_count(&report.gpu.why_not) > 0) {
    try {
      describe_gpu(*cuda::open_gpu(0), report.gpu);
    } catch (const Error& e) {
      report.gpu = {.why_not = e.message()};
    }
  }
  report.libraries = linked_libraries(report.machine);
  std::map<std::string, OpHealth> health;
  const int count = threads > 0 ? threads : report.machine.usable;
  ThreadPool pool(count);
  const auto count_large = [&](const ops::OpCase& c, const ops::BoundOp&) {
    report.left_out += c.flops > kSelfTestFlops;
  };
  const std::vector<CasePick> made = picks_here(gpu.get(), dtype, mode.reference && !gpu, pool);
  const double start = monotonic_seconds();
  for (const OpResult& r : run_ops({.bitwise = false,
                           .canary = false,
                           .threads = count,
                           .gpu = gpu.get(),
                           .dtype = dtype,
                           .capture = false,
                           .max_definition_flops = kSelfTestFlops,
                           .made = count_large})) {
    if (r.skipped) continue;
    OpHealth& h = health[r.op];
    if (r.bound > 0) h.worst = std::max(h.worst, r.error / r.bound);
    if (r.ok || !h.ok) continue;
    h.ok = false;
    h.failure = fmt::format("{} {}: {}; {}", r.mode, r.id(), r.detail, r.repeat());
  }
  report.self_test_seconds = monotonic_seconds() - start;
  count_picks(health, made, gpu ? Mode() : mode);
  for (auto& [op, h] : health) report.ops.push_back(std::move(h));
  return report;
}

}  // namespace tachy
