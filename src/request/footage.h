// Which frames of a given video are the frames of a clip that has another rate.
#pragma once

#include "request/inputs.h"

namespace tachy {

// Returns what messages call the video.
const std::string& called(const Footage& footage);

// Returns the index of the video's frame that is shown at frame `i` of a clip of `fps` frames a second: the one
// whose time is nearest. Rates that differ by a hundredth or less count as the same.
int64_t frame_at(const Footage& footage, double fps, int64_t i);

// Returns how many frames of such a clip the video has.
int64_t frames_at(const Footage& footage, double fps);

}  // namespace tachy
