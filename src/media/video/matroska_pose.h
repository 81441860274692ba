// Finds out how the picture of an mkv or webm is turned. Newer FFmpeg libraries return this as a display
// matrix, but those of Debian 12 (5.1) ignore this part of the file, so it is read here:
//
//   Segment 18538067 > Tracks 1654AE6B > TrackEntry AE > Video E0 > Projection 7670 > ProjectionType 7671 (0: a flat picture),
//   ProjectionPoseYaw 7673 (180: mirrored), ProjectionPosePitch 7674 (0), ProjectionPoseRoll 7675 (degrees, counter-clockwise)
//
// Private to src/media.
#pragma once

#include <filesystem>

namespace tachy {

// Returns the orientation of a video track; video tracks are counted from 0. It is 1 (upright) to 8 as in
// EXIF, or 0 for an angle that is not a multiple of 90 degrees. If something cannot be read, the result is
// upright.
int matroska_orientation(const std::filesystem::path& path, int video_track);

}  // namespace tachy
