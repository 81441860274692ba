// Checks one golden folder (see validate.h) with the engine.
#pragma once

#include "inspect/validate.h"

namespace tachy {

// `suffix` is added to the model's name in the checks, if one model is checked in two ways.
void validate_golden(const std::filesystem::path& folder, const ValidateOptions& options,
                     std::vector<Check>& checks, const std::string& suffix = "");

// The distance between two frames a and b of [height, width, 3] bytes, in levels of 255.
struct FrameDistance {
  double max = 0, mean = 0, psnr = 999;  // psnr is 999 if they are equal
};
FrameDistance frame_distance(const uint8_t* a, const uint8_t* b, size_t bytes);

}  // namespace tachy
