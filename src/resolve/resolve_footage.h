// Checks the videos, masks and reference pictures of a request, and settles what the clip takes of them.
#pragma once

#include "catalog/model_bundle.h"

namespace tachy {

// If the caller says no number of frames, the clip is as long as the video that is given, but no longer than the
// model's own clips unless it is made in windows. Says so if frames are left over.
void settle_frames(const ModelBundle& model, const VideoRequest& given, VideoRequest& r);

// `out` is a request that is otherwise resolved. Throws invalid_argument or unsupported, naming the field.
void resolve_footage(const ModelBundle& model, const VideoRequest& given, ResolvedRequest& out);

}  // namespace tachy
