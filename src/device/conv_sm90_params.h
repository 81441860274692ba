// Parameters of the Hopper convolution's kernel, made by the host.
#pragma once

#include <cuda.h>

#include "device/conv_shape.h"

namespace tachy::device {

struct Conv90Params {
  ConvShape s;
  int columns_log2;               // columns of the rectangle, as a logarithm: 3 or 4
  int tiles_h, tiles_w, tiles_n;  // rectangles of a frame, channel tiles
  int work;                       // total number of tiles
  void* normed;                   // may be null; if it is not, y may be null
  const float* gamma;
  float root;  // √Co
  bool silu;
  int chunks, padded_ci;  // channels of a tap in the weights, and number of their chunks
};

}  // namespace tachy::device
