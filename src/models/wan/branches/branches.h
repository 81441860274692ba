// The branches that a Wan transformer may have, in a table that a new one joins by adding a line.
#pragma once

#include <memory>
#include <vector>

#include "models/wan/branch.h"
#include "models/wan/wan_config.h"

namespace tachy {

using WanBranches = std::vector<std::unique_ptr<WanBranch>>;

// Makes the model's branches, in the order in which they act at a point of a block. `scope` is the
// transformer's. Blocks add the parameters of their own as they are built (WanBranch::load).
WanBranches make_branches(const Scope& scope, const WanConfig& config, nn::ParamStore& store);

}  // namespace tachy
