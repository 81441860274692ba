// Models that are made of Wan's transformer and need more than text and pictures: control videos, poses,
// cameras, sounds. Their files hold all of Wan's tensors and would run as text-to-video, but make another
// video than intended, so they are refused by name. Any other tensor that no model here reads and that is not
// known to be harmless is refused by its name, too.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/wan/wan_config.h"
#include "weights/tensor_source.h"

namespace tachy {

// Throws `unsupported`. `source` has diffusers' names, and may hold other parts of a
// model besides the transformer.
void refuse_relatives(const TensorSource& source);

// Throws `unsupported` for a config.json of another model's class or type.
void refuse_other_class(const nlohmann::json& config, const std::string& where);

// Throws `unsupported` for a transformer whose input is neither noise alone nor noise, mask and picture.
void refuse_other_inputs(const WanConfig& config, const std::string& where);

}  // namespace tachy
