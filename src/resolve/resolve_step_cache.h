// Fills in what the step caches that go by a published method's name need, and refuses what they cannot do.
#pragma once

#include "catalog/model_bundle.h"
#include "resolve/resolved.h"

namespace tachy {

// `out` is resolved but for `step_cache`. `off` says that the request leaves step caches out by `without`.
void resolve_step_cache(const ModelBundle& model, const VideoRequest& given, bool off, Resolved& out);

}  // namespace tachy
