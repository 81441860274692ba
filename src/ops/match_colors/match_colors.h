// Gives frames the colours of a picture: each channel of CIE Lab gets the picture's mean and deviation.
//
//   v = clamp((x + 1)/2, 0, 1);   c = Lab(v);   c' = (c − μ)·σ_picture/σ + μ_picture, and μ_picture if σ = 0
//   y = 2·((1 − s)·v + s·clamp(RGB(c'), 0, 1)) − 1
//
// μ and σ are those of each frame, over its pixels (σ² is the mean square). Lab and RGB are scikit-image's
// rgb2lab and lab2rgb for D65 and 2 degrees, in float64: with its curve of sRGB, its matrix, and a negative Z
// set to 0 on the way back. InfiniteTalk corrects its windows like this, so that colours do not drift from
// window to window.
#pragma once

#include <array>

#include "tensor/stream.h"

namespace tachy::ops {

struct LabStatistics {
  std::array<double, 3> mean = {}, deviation = {};  // for L, a and b
};

// Statistics of a picture x [H, W, 3] f32, contiguous. In a measure run it does nothing.
LabStatistics lab_statistics(const Tensor& x, Stream& stream);

struct MatchColorsArgs {
  Tensor x;  // [n, H, W, 3] f32, contiguous
  LabStatistics picture;
  double strength = 1;  // s, 0 to 1
  Tensor y;             // the same shape, contiguous; may be x
};

// It runs only on the CPU: frames on a GPU are downloaded for it.
void match_colors(const MatchColorsArgs& args, Stream& stream);

}  // namespace tachy::ops
