// Which implementation each op of a plan gets, as --plan and doctor --model show it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "api/tachyscope.h"

namespace tachy::cli {

nlohmann::json picks_json(const StagePlan& stage);
void print_picks(const std::vector<StagePlan>& stages);  // a line a stage

}  // namespace tachy::cli
