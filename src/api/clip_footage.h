// Reads what a clip takes of a request's videos and reference pictures.
#pragma once

#include <memory>

#include "base/stop_flags.h"
#include "catalog/model_bundle.h"
#include "resolve/resolved.h"

namespace tachy {

// Returns null if the request has neither. The frames are fitted to the clip's size and rate; what was done is said
// on a line of its own. Throws corrupt or io for a video that cannot be read, invalid_argument for a mask that is
// not one, and cancelled.
std::shared_ptr<const ClipPixels> clip_footage(const ModelBundle& model, const Resolved& request,
                                               const StopFlags& stop);

}  // namespace tachy
