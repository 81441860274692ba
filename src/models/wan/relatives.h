// Models that extend Wan's transformer and need more than text, pictures and VACE's control: poses, cameras,
// sounds. Their files contain all of Wan's tensors and would run as text-to-video, but would make the wrong
// video, so they are refused by name. Any other tensor that no model here reads is also refused by name,
// unless it is known to be harmless.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/wan/wan_config.h"
#include "weights/tensor_source.h"

namespace tachy {

// Throws `unsupported`. `source` has diffusers' names, and may contain other parts of a model besides the
// transformer.
void refuse_relatives(const TensorSource& source);

// Throws `unsupported` if linear layers are in TurboDiffusion's 8 bits (its -quant.pth files). `source` has any names.
void refuse_turbo_quantised(const TensorSource& source);

// Throws `unsupported` if a config.json has the class or type of another model.
void refuse_other_class(const nlohmann::json& config, const std::string& where);

// Throws `unsupported` if a transformer's input is neither only noise nor noise, mask and picture.
void refuse_other_inputs(const WanConfig& config, const std::string& where);

}  // namespace tachy
