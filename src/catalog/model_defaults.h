// Properties that follow from a model's kind: how it takes a picture, what it is called, and defaults for
// everything that a user may leave out.
#pragma once

#include <string>
#include <vector>

#include "catalog/model_bundle.h"

namespace tachy {

ImageInput detect_image_input(const ModelFiles& files, const WanConfig& config);
std::string model_kind(const ModelBundle& model);
// From the model's generation_config.json, or empty.
std::vector<float> preview_factors(const ModelBundle& model);
// Returns a request with every optional filled in.
VideoRequest default_request(const ModelBundle& model);

}  // namespace tachy
