// The part `environment` of a run's settings: variables that change what is computed (base/environment.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/run_environment.h"

namespace tachy::jobs {

// Adds what is set now, as far as a run of these settings depends on it; nothing where nothing is.
void add_environment(nlohmann::json& settings, bool on_gpu);
// Returns what settings say of it. Throws corrupt where that is no list of texts.
Environment environment_in(const nlohmann::json& settings);

// Says where an earlier run had another environment than that of `settings`, which add_environment has completed; the same
// difference once a process. who: "--from: cat.json".
void warn_of_environment(const std::string& who, const Environment& then, const nlohmann::json& settings);

}  // namespace tachy::jobs
