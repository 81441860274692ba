// One golden folder (see validate.h) against the engine.
#pragma once

#include "inspect/validate.h"

namespace tachy {

// suffix: of the model's name in the checks, where one model is checked in two ways.
void validate_golden(const std::filesystem::path& folder, const ValidateOptions& options,
                     std::vector<Check>& checks, const std::string& suffix = "");

// a and b: [height, width, 3] bytes. Levels of 255.
struct FrameDistance {
  double max = 0, mean = 0, psnr = 999;  // psnr 999: equal
};
FrameDistance frame_distance(const uint8_t* a, const uint8_t* b, size_t bytes);

}  // namespace tachy
