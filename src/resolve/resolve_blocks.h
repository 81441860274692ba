// Checks what a request may ask for if its video is made block by block.
#pragma once

#include "catalog/model_bundle.h"

namespace tachy {

// `out` is a request that is otherwise resolved.
void resolve_blocks(const ModelBundle& model, const VideoRequest& given, ResolvedRequest& out);

}  // namespace tachy
