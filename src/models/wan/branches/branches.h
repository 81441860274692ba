// The table of branches that a Wan transformer may have. A new branch is one more line in it.
#pragma once

#include <memory>
#include <vector>

#include "models/wan/branch.h"
#include "models/wan/wan_config.h"

namespace tachy {

using WanBranches = std::vector<std::unique_ptr<WanBranch>>;

// Makes the model's branches, in the order in which they act at a point of a block. `scope` is the
// transformer's. The parameters in blocks are loaded when blocks are built (WanBranch::load).
WanBranches make_branches(const Scope& scope, const WanConfig& config, nn::ParamStore& store);

}  // namespace tachy
