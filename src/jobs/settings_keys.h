// The names in the settings of a run (settings.h), for files that people write or change.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tachy::jobs {

// Throws invalid_argument for JSON that does not hold the settings of a run, and says what it lacks or what it is.
// `from` says where it lay.
void expect_settings(const nlohmann::json& j, const std::string& from);

// Throws corrupt for a key that no run reads, with those that are spelt like it. A newer version may have written
// it, and without it the run would be another one.
void expect_known_keys(const nlohmann::json& settings, const std::string& from);

}  // namespace tachy::jobs
