// What a request with speech comes to: how long its video is and how it is cut into windows. Checks what only speech asks for.
#pragma once

#include "catalog/model_bundle.h"

namespace tachy {

// given: as the caller made it; r: with the model's defaults, whose frames and windows are settled here. Without speech nothing
// happens, unless the model cannot do without: throws invalid_argument, not_found or unsupported, naming the field.
TalkWindows resolve_talk(const ModelBundle& model, const VideoRequest& given, VideoRequest& r);

}  // namespace tachy
