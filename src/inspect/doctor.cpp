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
#include <nlohmann/json.hpp>
#include <set>

#include "cuda/gpu_facts.h"
#include "cuda/gpu_family.h"
#include "cuda/open_device.h"
#include "inspect/op_runner.h"
#include "ops/features.h"
#include "pipelines/gpu_mode.h"
#include "pipelines/stage_clock.h"
#include "pipelines/text_to_video.h"

namespace tachy {
namespace {

using nlohmann::json;
using ops::CaseKind;

std::string version_of(unsigned v) { return fmt::format("{}.{}.{}", v >> 16, v >> 8 & 0xff, v & 0xff); }

struct Made {
  std::string op;
  Compute compute;
  ops::Choice choice;
  bool real = false;  // in the shape of a model
};

// What each op gets: in the shapes of models where it has cases of them, else in its small ones. Their
// tensors are made without values, of which no pick depends.
std::vector<Made> picks_here(cuda::Gpu* gpu, DType dtype, bool definitions, ThreadPool& pool) {
  const auto cases = all_op_cases();
  const auto here = [&](const ops::OpCase& c) { return gpu ? c.gpu : c.cpu && c.kind != CaseKind::video; };
  std::set<std::string> have_real;
  for (const ops::OpCase& c : cases)
    if (here(c) && c.kind >= CaseKind::real) have_real.insert(c.op);
  std::vector<Made> made;
  for (const ops::OpCase& c : cases) {
    const bool real = c.kind >= CaseKind::real;
    if (!here(c) || real != have_real.contains(c.op)) continue;
    ops::CaseMemory memory(1, c.kind,
                           {.dtype = dtype, .gpu = gpu, .device = gpu, .pool = &pool, .blank = real});
    const ops::BoundOp op = c.make(memory);
    memory.finish();
    Arena arena;
    const Stream stream{.arena = &arena,
                        .pool = &pool,
                        .gpu = gpu,
                        .memory = gpu,
                        .precision = {.activation = dtype, .definitions = definitions}};
    made.push_back({c.op, op.compute, op.choose(stream), real});
  }
  return made;
}

void count_picks(std::map<std::string, OpHealth>& health, const std::vector<Made>& made, const Mode& mode) {
  std::map<std::string, std::map<std::pair<std::string, std::string>, int>> picks;
  std::map<std::string, size_t> choices;
  // Products have cases in float32 and in bf16: those of this level count.
  std::set<std::string> asked;  // ops with cases of this level's arithmetic
  for (const Made& m : made)
    if (m.compute == mode.compute) asked.insert(m.op);
  for (const Made& m : made) {
    if (m.compute != mode.compute && asked.contains(m.op)) continue;
    ++picks[m.op][{m.choice.impl, ops::describe(m.choice.passed)}];
    health[m.op].real = m.real;
    choices[m.op] = std::max(choices[m.op], m.choice.candidates);
  }
  for (const auto& [op, counts] : picks) {
    OpHealth& h = health[op];
    h.op = op;
    std::map<std::string, int> by_impl;
    for (const auto& [pick, count] : counts) h.cases += count, by_impl[pick.first] += count;
    h.pick = std::max_element(by_impl.begin(), by_impl.end(), [](auto& a, auto& b) {
               return a.second < b.second;
             })->first;
    // Why: the commonest reason of that pick; everything else is an exception.
    const auto most = std::max_element(counts.begin(), counts.end(), [&](auto& a, auto& b) {
      return (a.first.first == h.pick ? a.second : 0) < (b.first.first == h.pick ? b.second : 0);
    });
    h.why = !most->first.second.empty() ? "not " + most->first.second
            : choices[op] == 1          ? "its only one"
                                        : fmt::format("first choice of {}", choices[op]);
    // One line for each other implementation, with the commonest reason.
    std::map<std::string, int> commonest;
    for (const auto& [pick, count] : counts) {
      if (pick.first == h.pick) continue;
      auto it = std::find_if(h.exceptions.begin(), h.exceptions.end(),
                             [&](const OpHealth::Exception& e) { return e.pick == pick.first; });
      if (it == h.exceptions.end()) it = h.exceptions.insert(it, {pick.first, "", 0});
      it->cases += count;
      if (count > commonest[pick.first]) commonest[pick.first] = count, it->reason = pick.second;
    }
  }
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

void describe_gpu(cuda::Gpu& gpu, GpuState& state) {
  const cuda::GpuInfo& i = gpu.info();
  state.index = i.index, state.name = i.name, state.capability = fmt::format("{}.{}", i.major, i.minor);
  const cuda::GpuFamily& family = cuda::family_of(i);
  state.family = fmt::format("{} ({})", family.name, family.gpus), state.measured = family.measured;
  state.multiprocessors = i.multiprocessors;
  state.memory_bytes = i.memory_bytes, state.free_bytes = gpu.free_bytes(), state.l2_bytes = i.l2_bytes;
  state.driver = cuda::driver_version();
  state.cuda = fmt::format("{} (the driver takes up to {})", cuda::cuda_version(i.runtime),
                           cuda::cuda_version(i.driver));
}

// The model's own video, without computing it.
std::vector<StagePlan> plan_of(const std::filesystem::path& model, const std::string& level, int threads,
                               const std::string& device, const std::string& dtype) {
  ModelBundle bundle = naming("--model", [&] { return ModelBundle::open(model); });
  TextToVideo pipeline(std::move(bundle), {.threads = threads, .device = device});
  VideoRequest request;
  request.prompt = "a prompt of ordinary length, for the shapes of its keys and values";
  request.level = level;
  if (!dtype.empty()) request.dtype = dtype;
  return pipeline.plan(request).stages;
}

}  // namespace

bool DoctorReport::ok() const {
  return std::all_of(ops.begin(), ops.end(), [](const OpHealth& h) { return h.ok; });
}

DoctorReport run_doctor(const std::string& level, int threads, const std::string& device,
                        const std::string& dtype_name_or_empty, const std::filesystem::path& model) {
  require(threads >= 0 && threads <= 1024, "--threads: expected 0 (all) to 1024, got {}", threads);
  const Mode mode = find_level(level).mode;
  const std::string chosen = cuda::choose_device(device);
  const auto gpu = cuda::open_device(chosen);
  require(gpu || dtype_name_or_empty.empty(), "--dtype: it is of a GPU's activations; got {} without one",
          dtype_name_or_empty);
  const DType dtype =
      gpu ? gpu_mode(level, dtype_name_or_empty, gpu->info().capability()).activation : DType::f32;
  DoctorReport report{.machine = cpu::describe_machine(),
                      .level = level,
                      .device = chosen,
                      .levels = describe_levels(level, dtype_name_or_empty, gpu.get())};
  if (!model.empty()) report.model = plan_of(model, level, threads, chosen, dtype_name_or_empty);
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
  report.libraries = report.machine.libraries;
  report.libraries.insert(
      report.libraries.end(),
      {{"libavcodec", version_of(avcodec_version())},
       {"libavformat", version_of(avformat_version())},
       {"utf8proc", utf8proc_version()},
       {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
       {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
       {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                     NLOHMANN_JSON_VERSION_PATCH)}});
  std::map<std::string, OpHealth> health;
  const int count = threads > 0 ? threads : report.machine.usable;
  ThreadPool pool(count);
  const auto count_large = [&](const ops::OpCase& c, const ops::BoundOp&) {
    report.left_out += c.flops > kSelfTestFlops;
  };
  const std::vector<Made> made = picks_here(gpu.get(), dtype, mode.reference && !gpu, pool);
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

json to_json(const DoctorReport& report) {
  const cpu::Machine& m = report.machine;
  json caches = json::object(), libraries = json::object(), list = json::array(), levels = json::array();
  for (const auto& [name, size] : m.caches) caches[name] = size;
  for (const auto& [name, version] : report.libraries) libraries[name] = version;
  for (const OpHealth& h : report.ops) {
    json exceptions = json::array();
    for (const auto& e : h.exceptions)
      exceptions.push_back({{"implementation", e.pick}, {"cases", e.cases}, {"reason", e.reason}});
    list.push_back({{"op", h.op},
                    {"implementation", h.pick},
                    {"why", h.why},
                    {"cases", h.cases},
                    {"shapes", h.real ? "of models" : "small"},
                    {"exceptions", exceptions},
                    {"self_test", h.ok ? "ok" : "failed"},
                    {"worst_error_of_bound", h.worst},
                    {"failure", h.failure}});
  }
  for (const LevelState& l : report.levels)
    levels.push_back({{"level", l.name}, {"means", l.means}, {"here", l.here}, {"active", l.active}});
  json gpu = {{"found", !report.gpu.name.empty()}};
  if (report.gpu.name.empty()) {
    gpu["why_not"] = report.gpu.why_not;
  } else {
    json found = json::object();
    for (const auto& [name, version] : report.gpu.libraries) found[name] = version;
    gpu.update({{"index", report.gpu.index},
                {"name", report.gpu.name},
                {"capability", report.gpu.capability},
                {"family", report.gpu.family},
                {"family_measured", report.gpu.measured},
                {"multiprocessors", report.gpu.multiprocessors},
                {"memory_bytes", report.gpu.memory_bytes},
                {"free_bytes", report.gpu.free_bytes},
                {"l2_bytes", report.gpu.l2_bytes},
                {"driver", report.gpu.driver},
                {"cuda", report.gpu.cuda},
                {"dtype", report.gpu.dtype},
                {"libraries", found}});
  }
  return {{"device", report.device},
          {"gpu", gpu},
          {"machine",
           {{"cpu", m.cpu},
            {"isa", m.isa},
            {"simd", m.simd_target},
            {"caches", caches},
            {"processors", m.processors},
            {"usable_processors", m.usable},
            {"memory_bytes", m.memory_bytes},
            {"available_bytes", m.available_bytes},
            {"memory_limit_bytes", m.memory_limit_bytes}}},
          {"libraries", libraries},
          {"level", report.level},
          {"levels", levels},
          {"ops", list},
          {"self_test_seconds", report.self_test_seconds},
          {"self_test_cases_left_out", report.left_out},
          {"ok", report.ok()}};
}

}  // namespace tachy
