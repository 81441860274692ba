// Turns and mirrors pictures as a camera or a container says. Private to src/media.
#pragma once

#include <cstdint>

#include "media/frame.h"

namespace tachy {

// Applies EXIF's orientation, 1 (upright) to 8, like Pillow's exif_transpose.
RgbFrame turn_upright(RgbFrame in, int orientation);

// Says whether width and height are swapped.
constexpr bool turns_sideways(int orientation) { return orientation >= 5; }

// The orientation that a display matrix of mp4, mov or mkv stands for. It has nine numbers as in FFmpeg,
// 16.16 and 2.30 fixed point; a stored point (x, y) is shown at (m0 x + m3 y, m1 x + m4 y). Returns 1 for a
// matrix of zeros, and 0 for one that turns by an angle other than 90, 180 or 270 degrees, give or take one,
// as ffmpeg decides.
int orientation_of_matrix(const int32_t* matrix);

}  // namespace tachy
