// What follows from the kind of a model: how it takes a picture, what it is called, what a user may leave out.
#pragma once

#include <string>
#include <vector>

#include "catalog/model_bundle.h"

namespace tachy {

ImageInput detect_image_input(const ModelFiles& files, const WanConfig& config);
std::string model_kind(const ModelBundle& model);
std::vector<float> preview_factors(
    const ModelBundle& model);  // of the model's generation_config.json, or none
// Every optional of a request filled in.
VideoRequest default_request(const ModelBundle& model);

}  // namespace tachy
