// A convolution along one axis as a linear layer. Row i of the layer's input consists of rows [i·stride,
// i·stride + width) of x, one after another, so the weight is [out, width·channels] with the taps before the
// channels. On the CPU these rows overlap in memory and nothing is copied. A GPU's products need rows that do
// not overlap, so they get a copy.
#pragma once

#include "tensor/stream.h"

namespace tachy::nn {

// Returns the number of windows in n rows.
constexpr int64_t windows_of(int64_t n, int64_t width, int64_t stride) {
  return n < width ? 0 : (n - width) / stride + 1;
}

// Returns the rows [windows_of(n), width·channels] of `dtype` for x [n, channels], which is contiguous. They
// are a view of x or lie in the arena's memory.
Tensor windows(const Tensor& x, int64_t width, int64_t stride, DType dtype, Stream& stream);

}  // namespace tachy::nn
