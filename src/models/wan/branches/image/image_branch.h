// The image branch of Wan 2.1's image-to-video models. The cross-attention's queries also attend to the keys
// of the picture, with a separate softmax, and the result is added to that of the text.
#pragma once

#include <memory>

#include "models/wan/branch.h"
#include "models/wan/wan_config.h"

namespace tachy {

std::unique_ptr<WanBranch> make_image_branch(const Scope& scope, const WanConfig& config,
                                             nn::ParamStore& store);

}  // namespace tachy
