// The branches that a Wan transformer may have: the table that a new one joins by a line.
#pragma once

#include <memory>
#include <vector>

#include "models/wan/branch.h"
#include "models/wan/wan_config.h"

namespace tachy {

using WanBranches = std::vector<std::unique_ptr<WanBranch>>;

// Those of the model, in the order in which they act at a point of a block. scope: the transformer's. Blocks add their own
// parameters as they are built (WanBranch::load).
WanBranches make_branches(const Scope& scope, const WanConfig& config, nn::ParamStore& store);

}  // namespace tachy
