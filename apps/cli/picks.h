// Which implementation each op of a plan gets, and which optimisations are on, as --plan and doctor show it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "api/tachyscope.h"

namespace tachy::cli {

nlohmann::json picks_json(const StagePlan& stage);
void print_picks(const std::vector<StagePlan>& stages);  // a line a stage

nlohmann::json optimisations_json(const std::vector<OptimisationState>& states);
// A line each: its name, whether it is on and why, and what it is worth.
void print_optimisations(const std::vector<OptimisationState>& states);

}  // namespace tachy::cli
