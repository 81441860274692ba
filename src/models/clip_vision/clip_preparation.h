// Reads the preprocessor_config.json of transformers' CLIPImageProcessor.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/clip_preparation.h"

namespace tachy {

// `side` is the model's image_size, to which the picture is brought. Throws `unsupported` for steps that this
// engine does not carry out, and `corrupt` for impossible values.
ClipPreparation clip_preparation(const nlohmann::json& config, int side);

}  // namespace tachy
