// Pictures turned and mirrored as a camera or a container says. Private to src/media.
#pragma once

#include <cstdint>

#include "media/frame.h"

namespace tachy {

// By EXIF's orientation, 1 (upright) to 8: as Pillow's exif_transpose.
RgbFrame turn_upright(RgbFrame in, int orientation);

// Whether width and height change places.
constexpr bool turns_sideways(int orientation) { return orientation >= 5; }

// The orientation that a display matrix of mp4, mov or mkv stands for (nine numbers as FFmpeg has them: 16.16 and 2.30 fixed
// point, a stored point (x, y) is shown at (m0 x + m3 y, m1 x + m4 y)). 1 for one of zeros; 0 for one that turns by another angle
// than 90, 180 or 270 degrees, give or take one, as ffmpeg decides.
int orientation_of_matrix(const int32_t* matrix);

}  // namespace tachy
