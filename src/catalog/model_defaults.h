// Defaults for what a user may leave out, from a model's own settings or else from its family.
#pragma once

#include <vector>

#include "catalog/model_bundle.h"

namespace tachy {

// From the model's generation_config.json, or empty.
std::vector<float> preview_factors(const ModelBundle& model);
// Returns a request with every optional filled in.
VideoRequest default_request(const ModelBundle& model);

}  // namespace tachy
