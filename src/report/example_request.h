// A request for a model's own video whose values do not matter: what a plan of it is made from.
#pragma once

#include "catalog/model_bundle.h"

namespace tachy {

// Everything that the model's stages read, of the usual lengths: a prompt, a picture, a sound.
VideoRequest example_request(const ModelBundle& model);

}  // namespace tachy
