// Prepares a picture for CLIP's vision model, in one of two ways that give different results for every
// picture:
//
//   processor   transformers' CLIPImageProcessor (by Pillow): bicubic, widened when shrinking, in 8 bits,
//               until the shorter side is right; the middle; (v · rescale - mean) / deviation
//   original    Wan 2.1's repository: torch's bicubic (A = -0.75, never widened) in float32 squashes the
//               picture in [-1, 1] to the square; (v / 2 + 1/2 - mean) / deviation
//
// Both give the bits of the reference; for torch these are the bits of a CPU with fused multiply-add.
#pragma once

#include <vector>

#include "base/clip_preparation.h"
#include "media/frame.h"

namespace tachy {

// Returns [3, side, side]. Throws invalid_argument for a picture with a shape that would need absurd amounts
// of memory.
std::vector<float> clip_pixels(RgbView picture, const ClipPreparation& how);

}  // namespace tachy
