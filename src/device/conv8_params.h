// Parameters of the Hopper convolution in 8 bits, made by the host.
#pragma once

#include "device/conv_sm90_params.h"

namespace tachy::device {

struct Conv8Params {
  Conv90Params c;      // `normed` in it is for numbers, not codes
  const float* scale;  // [Co]: scale of the sums of codes
  void* codes;         // the norm in e4m3, or null
  float inverse;       // 1 / the codes' scale
};

// Boxes of the frames, of the weights and of the residual. A chunk of channels is a wide box, followed by a
// narrow one if needed.
struct Conv8Maps {
  CUtensorMap chunk[2], cache[2], weights[2], residual;
};

}  // namespace tachy::device
