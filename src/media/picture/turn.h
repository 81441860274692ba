// Turns and mirrors pictures according to a camera's or a container's metadata. Private to src/media.
#pragma once

#include <cstdint>

#include "media/frame.h"

namespace tachy {

// Applies EXIF's orientation, 1 (upright) to 8, like Pillow's exif_transpose.
RgbFrame turn_upright(RgbFrame in, int orientation);

// Says whether the orientation swaps width and height.
constexpr bool turns_sideways(int orientation) { return orientation >= 5; }

// Returns the orientation of a display matrix in mp4, mov or mkv. The matrix has nine numbers as in FFmpeg,
// in 16.16 and 2.30 fixed point; a stored point (x, y) is shown at (m0 x + m3 y, m1 x + m4 y). Returns 1 for
// a matrix of zeros. Returns 0 for other angles than 90, 180 or 270 degrees, give or take one degree, as
// ffmpeg decides.
int orientation_of_matrix(const int32_t* matrix);

}  // namespace tachy
