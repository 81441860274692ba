// The image branch of Wan 2.1's image-to-video models: the cross-attention's queries look at the picture's keys, too, and what
// they find there, by a softmax of its own, is added to what they find in the text.
#pragma once

#include <memory>

#include "models/wan/branch.h"
#include "models/wan/wan_config.h"

namespace tachy {

std::unique_ptr<WanBranch> make_image_branch(const Scope& scope, const WanConfig& config,
                                             nn::ParamStore& store);

}  // namespace tachy
