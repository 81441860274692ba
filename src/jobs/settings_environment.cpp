#include "jobs/settings_environment.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_text.h"
#include "base/log.h"

namespace tachy::jobs {

using nlohmann::json;

namespace {

// Removes variables that only a run on a GPU, or only one that names no model, depends on.
Environment counting(Environment all, const json& settings, bool on_gpu) {
  if (!on_gpu) all.erase("kept_choices");
  if (!settings.value("model", "").empty()) all.erase("TACHY_MODEL_DIR");
  return all;
}

}  // namespace

void add_environment(json& settings, bool on_gpu) {
  const Environment now = counting(run_environment(on_gpu), settings, on_gpu);
  if (now.empty()) return;
  // Bytes that are not UTF-8 are replaced: JSON could not hold them.
  settings["environment"] = parse_json_line(json_line(json(now)));
}

Environment environment_in(const json& settings) {
  const auto it = settings.find("environment");
  if (it == settings.end()) return {};
  const bool texts = it->is_object() && it->size() <= 64 &&
                     std::ranges::all_of(*it, [](const json& value) { return value.is_string(); });
  check(texts, ErrorCode::corrupt, "'environment' should hold at most 64 texts by their names, got {}",
        it->dump(-1, ' ', true, json::error_handler_t::replace));
  return it->get<Environment>();
}

void warn_of_environment(const std::string& who, const Environment& then, const json& settings) {
  const bool on_gpu = settings.value("device", "") == "cuda";
  const std::string differs =
      environment_difference(counting(then, settings, on_gpu), environment_in(settings));
  static std::set<std::string> said;  // the jobs of a process are made one after the other
  if (differs.empty() || !said.insert(differs).second) return;
  warn("{}: the environment was different: {}; the frames may differ", who, differs);
}

}  // namespace tachy::jobs
