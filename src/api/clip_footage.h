// Reads what a clip takes of a request's videos and reference pictures.
#pragma once

#include <memory>

#include "base/stop_flags.h"
#include "catalog/model_bundle.h"
#include "resolve/resolved.h"

namespace tachy {

// Says whether a request has videos or references, or a control that is followed.
bool takes_footage(const Resolved& request);

// Throws unsupported or invalid_argument for what can be told without reading a frame. How videos are fitted to the
// clip's size and rate is said on a line for each.
void check_footage_fits(const ModelBundle& model, const Resolved& request);

// Returns the fitted frames, or null if the request takes none. Throws corrupt or io for a video that cannot be read,
// invalid_argument for a mask that is not one, and cancelled.
std::shared_ptr<const ClipPixels> clip_footage(const ModelBundle& model, const Resolved& request,
                                               const StopFlags& stop);

}  // namespace tachy
