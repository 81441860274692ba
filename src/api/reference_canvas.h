// Lays a reference picture on a white canvas of the clip's size, as large as it fits there, as diffusers does: it is
// resized to multiples of the VAE's stride first, and then bilinearly.
#pragma once

#include <vector>

#include "request/inputs.h"

namespace tachy {

struct CanvasSize {
  int multiple = 1;  // the VAE's stride in pixels
  int width = 0, height = 0;
};

// Returns [height, width, 3] in [-1, 1]. `field` is for messages. Throws invalid_argument for a picture that is too
// small or too narrow; check_fits_canvas does that alone.
std::vector<float> on_canvas(const char* field, const Picture& picture, const CanvasSize& size);
void check_fits_canvas(const char* field, const Picture& picture, const CanvasSize& size);

}  // namespace tachy
