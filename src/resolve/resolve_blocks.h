// What a request that is made block by block may ask for.
#pragma once

#include "catalog/model_bundle.h"

namespace tachy {

// out: resolved but for this.
void resolve_blocks(const ModelBundle& model, const VideoRequest& given, ResolvedRequest& out);

}  // namespace tachy
