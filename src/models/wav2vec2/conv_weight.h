// The weight of a convolution along one axis as the matrix that multiplies windows (nn/windows.h): [out, kernel·channels],
// taps before channels, of the file's [out, channels, kernel]. It may be some rows of a whole (a group's) and each tap may
// have a factor (weight norm over the taps).
#pragma once

#include <memory>
#include <vector>

#include "nn/params.h"

namespace tachy {

using TapFactors = std::shared_ptr<const std::vector<double>>;

// Rows [first, first + rows) of `weight` [out, channels, kernel], which lies in a mapped file. factors: [kernel] or null.
nn::WeightPart conv_weight(const Tensor& weight, int64_t first, int64_t rows, const TapFactors& factors = {});

// Values of a small tensor of a file, as float32.
std::vector<float> file_values(const Tensor& t);

// What weight norm over the last axis multiplies each tap of `v` [out, channels, kernel] by: g / ‖v[:, :, tap]‖.
TapFactors weight_norm_factors(const Tensor& g, const Tensor& v);

}  // namespace tachy
