// Resolves a request with speech: how long its video is and how it is cut into windows. Checks the options
// that only speech has.
#pragma once

#include "catalog/model_bundle.h"

namespace tachy {

// `given` is the request as the caller made it. `r` has the model's defaults; its frames and windows are
// settled here. Without speech this does nothing, unless the model needs it. Throws invalid_argument,
// not_found or unsupported, naming the field.
TalkWindows resolve_talk(const ModelBundle& model, const VideoRequest& given, VideoRequest& r);

}  // namespace tachy
