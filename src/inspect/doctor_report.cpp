// The doctor's report as JSON.
#include <nlohmann/json.hpp>

#include "inspect/doctor.h"

namespace tachy {
namespace {

using nlohmann::json;

json gpu_json(const GpuState& state) {
  json gpu = {{"found", !state.name.empty()}};
  if (state.name.empty()) {
    gpu["why_not"] = state.why_not;
  } else {
    json found = json::object();
    for (const auto& [name, version] : state.libraries) found[name] = version;
    gpu.update({{"index", state.index},
                {"name", state.name},
                {"capability", state.capability},
                {"family", state.family},
                {"family_measured", state.measured},
                {"multiprocessors", state.multiprocessors},
                {"memory_bytes", state.memory_bytes},
                {"free_bytes", state.free_bytes},
                {"l2_bytes", state.l2_bytes},
                {"driver", state.driver},
                {"cuda", state.cuda},
                {"dtype", state.dtype},
                {"libraries", found}});
  }
  return gpu;
}

}  // namespace

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
  const json gpu = gpu_json(report.gpu);
  return {{"device", report.device},
          {"gpu", gpu},
          {"machine",
           {{"cpu", m.cpu},
            {"isa", m.isa},
            {"simd", m.simd_target},
            {"simd_alone", !m.compiled_for.empty()},
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
