// The pixels that a request's videos and reference pictures give to a clip, fitted to its size, length and rate.
#pragma once

#include <cstdint>
#include <vector>

namespace tachy {

struct ClipPixels {
  std::vector<uint8_t> start;  // [frames, height, width, 3] of the video that is denoised anew; empty: none
  // For models with control blocks: the frames and the place that ControlPlan says, [n, bottom - top,
  // right - left, 3], and the mask [n, bottom - top, right - left]. Without `control` it is that of `start`.
  std::vector<uint8_t> control, mask;
  std::vector<std::vector<float>> references;  // [height, width, 3] each, in [-1, 1]
};

}  // namespace tachy
