// The `environment` part of a run's settings: variables that change what is computed (base/environment.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/run_environment.h"

namespace tachy::jobs {

// Adds the variables that are set now and that a run of these settings depends on; adds nothing if there are
// none.
void add_environment(nlohmann::json& settings, bool on_gpu);
// Returns the environment that settings state. Throws corrupt if it is not a list of texts.
Environment environment_in(const nlohmann::json& settings);

// Warns if an earlier run's environment differs from that of `settings`, which add_environment has completed;
// each difference is told once in a process. `who` begins the warning: "--from: cat.json".
void warn_of_environment(const std::string& who, const Environment& then, const nlohmann::json& settings);

}  // namespace tachy::jobs
