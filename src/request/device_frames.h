// Frames that stay where they were made.
#pragma once

#include <cstdint>

namespace tachy {

// Frames as bytes [count, height, width, 3] where they were made. They are valid during the call, and whoever reads
// them on a GPU has to be done when it returns.
struct DeviceFrames {
  const uint8_t* rgb = nullptr;
  int gpu = -1;  // in which GPU's memory they are, as CUDA counts them; -1: in the host's
  int width = 0, height = 0;
  int64_t first = 0, count = 0;
};

}  // namespace tachy
