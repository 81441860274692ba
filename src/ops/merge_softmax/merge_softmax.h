// Merges two softmaxes over different keys of the same queries into the softmax over all of those keys, as for
// keys that go round among devices. Each has its result and the logarithm of its sum of weights
// (AttentionArgs::lse). With m the larger one of the two logarithms, and with a = e^(x_lse − m), b = e^(y_lse −
// m):
//   y = (a·x + b·y) / (a + b),   y_lse = m + ln(a + b)
// A softmax over no key has zeros and -inf, and changes nothing; if both are such, y gets zeros.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct MergeSoftmaxArgs {
  Tensor x;      // [B, L, H, D] f32, inner dim contiguous, other strides free
  Tensor x_lse;  // [B, H, L] f32, contiguous
  Tensor y;      // as x, read and written
  Tensor y_lse;  // as x_lse, read and written
};

void merge_softmax(const MergeSoftmaxArgs& args, Stream& stream);

}  // namespace tachy::ops
