// Reads the preprocessor_config.json of transformers' CLIPImageProcessor.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/clip_preparation.h"

namespace tachy {

// side: the model's image_size, which the picture must come to. Throws unsupported for steps that this engine does
// not take, corrupt for values that make no sense.
ClipPreparation clip_preparation(const nlohmann::json& config, int side);

}  // namespace tachy
