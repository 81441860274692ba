// Turns the weight of a convolution along one axis into the matrix that multiplies windows (nn/windows.h).
// The file's [out, channels, kernel] becomes [out, kernel·channels], with the taps before the channels. It
// may be some rows of the whole (those of a group), and each tap may have a factor (weight norm over the
// taps).
#pragma once

#include <memory>
#include <vector>

#include "nn/params.h"

namespace tachy {

using TapFactors = std::shared_ptr<const std::vector<double>>;

// Takes rows [first, first + rows) of `weight` [out, channels, kernel], which lies in a mapped file.
// `factors` is [kernel] or null.
nn::WeightPart conv_weight(const Tensor& weight, int64_t first, int64_t rows, const TapFactors& factors = {});

// Returns the values of a small tensor of a file as float32.
std::vector<float> file_values(const Tensor& t);

// Returns the factors g / ‖v[:, :, tap]‖ by which weight norm over the last axis multiplies the taps of `v`
// [out, channels, kernel].
TapFactors weight_norm_factors(const Tensor& g, const Tensor& v);

}  // namespace tachy
