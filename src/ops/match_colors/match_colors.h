// Frames with the colours of a picture: mean and deviation of each channel of CIE Lab become the picture's.
//
//   v = clamp((x + 1)/2, 0, 1);   c = Lab(v);   c' = (c − μ)·σ_picture/σ + μ_picture, and μ_picture where σ = 0
//   y = 2·((1 − s)·v + s·clamp(RGB(c'), 0, 1)) − 1
//
// μ and σ are a frame's own, over its pixels (σ²: the mean square). Lab and RGB are scikit-image's rgb2lab and lab2rgb
// for D65 and 2 degrees, in float64: its curve of sRGB, its matrix, a negative Z put to 0 on the way back. InfiniteTalk
// corrects its windows by this, lest colours drift from window to window.
#pragma once

#include <array>

#include "tensor/stream.h"

namespace tachy::ops {

struct LabStatistics {
  std::array<double, 3> mean = {}, deviation = {};  // of L, a and b
};

// Of a picture x [H, W, 3] f32, contiguous. Nothing in a measure run.
LabStatistics lab_statistics(const Tensor& x, Stream& stream);

struct MatchColorsArgs {
  Tensor x;  // [n, H, W, 3] f32, contiguous
  LabStatistics picture;
  double strength = 1;  // s, 0 to 1
  Tensor y;             // the same shape, contiguous; may be x
};

// On the CPU only: where frames lie on a GPU they are brought to the host for it.
void match_colors(const MatchColorsArgs& args, Stream& stream);

}  // namespace tachy::ops
