// Checks the pictures of a request, and the embeddings that may take their place, for one model.
#pragma once

#include "catalog/model_bundle.h"

namespace tachy {

// `r` is the request with the model's defaults. Throws invalid_argument, not_found or unsupported.
void check_images(const ModelBundle& model, const VideoRequest& r);

}  // namespace tachy
