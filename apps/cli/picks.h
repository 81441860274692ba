// Shows which implementation each op of a plan gets, and which optimisations are on, for --plan and doctor.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "api/tachyscope.h"

namespace tachy::cli {

nlohmann::json picks_json(const StagePlan& stage);
void print_picks(const std::vector<StagePlan>& stages);  // one line for each stage

nlohmann::json optimisations_json(const std::vector<OptimisationState>& states);
// Prints one line for each optimisation: its name, whether it is on and why, and its gain.
void print_optimisations(const std::vector<OptimisationState>& states);

}  // namespace tachy::cli
