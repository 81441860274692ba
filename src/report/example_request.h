// A request for a model's own video whose values do not matter, from which plans are made.
#pragma once

#include "catalog/model_bundle.h"

namespace tachy {

// The request holds everything that the model's stages read, in the usual lengths: a prompt, a picture, a
// sound.
VideoRequest example_request(const ModelBundle& model);

}  // namespace tachy
