// A convolution along one axis as a linear layer: row i of its input consists of x's rows [i·stride,
// i·stride + width), one after another, so its weight is [out, width·channels] with the taps before the
// channels. On the CPU these rows overlap in memory and nothing is copied. A GPU's products need rows that do
// not overlap, and get a copy.
#pragma once

#include "tensor/stream.h"

namespace tachy::nn {

// How many windows n rows have.
constexpr int64_t windows_of(int64_t n, int64_t width, int64_t stride) {
  return n < width ? 0 : (n - width) / stride + 1;
}

// x [n, channels] contiguous → [windows_of(n), width·channels] of `dtype`, as a view or in the arena's memory.
Tensor windows(const Tensor& x, int64_t width, int64_t stride, DType dtype, Stream& stream);

}  // namespace tachy::nn
