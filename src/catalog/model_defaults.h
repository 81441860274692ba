// Settings that a user may leave out: they come from the model's own files, or else from its family.
#pragma once

#include <vector>

#include "catalog/model_bundle.h"

namespace tachy {

std::vector<float> preview_factors(
    const ModelBundle& model);  // of the model's generation_config.json, or none
// Every optional of a request filled in.
VideoRequest default_request(const ModelBundle& model);

}  // namespace tachy
