// Defaults for everything that a user may leave out, from the model's own settings or from its family.
#pragma once

#include <vector>

#include "catalog/model_bundle.h"

namespace tachy {

// Returns the factors in the model's generation_config.json, or nothing.
std::vector<float> preview_factors(const ModelBundle& model);
// Returns what generation_config.json says about step caches (resolve/step_cache_values.h has the others).
StepCacheValues own_step_caches(const ModelBundle& model);
// Returns a request with every optional filled in.
VideoRequest default_request(const ModelBundle& model);

}  // namespace tachy
