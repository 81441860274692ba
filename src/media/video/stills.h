// Single pictures of a video: one frame, a thumbnail, and a sheet of small frames for a page that shows where one would
// jump to. The video may be hostile, as in VideoReader.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/stop_flags.h"
#include "media/frame.h"

namespace tachy {

// Returns a frame by its number from 0 on; -1 is the last frame. Throws invalid_argument if there is no such frame, and
// what VideoReader throws. It decodes all frames before it.
RgbFrame frame_of_video(const std::filesystem::path& video, int64_t number, CancelFlag cancel = {});

// Returns a JPEG of the frame after the first third, whose longest side has at most `longest` pixels. A small frame is
// not enlarged.
std::vector<uint8_t> thumbnail_of(const std::filesystem::path& video, int longest = 512,
                                  CancelFlag cancel = {});

struct SheetOptions {
  int most_frames = 100;  // evenly spread over the video if it has more
  int columns = 10;
  int width = 160, height = 320;  // a frame is made small enough for this box, and is not enlarged
};

// Returns a JPEG with frames of the video, row by row, and black where the last row has none left. The video is decoded
// once.
std::vector<uint8_t> spritesheet_of(const std::filesystem::path& video, const SheetOptions& options = {},
                                    CancelFlag cancel = {});

}  // namespace tachy
