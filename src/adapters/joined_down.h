// The tensor between a pair (lora_mid) taken into its second factor.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace tachy {

// mid [r, r, kernel…] between a pair: A'[p, i, kernel] = Σ mid[p, q, kernel]·A[q, i].
std::vector<float> joined_down(const Tensor& mid, const Tensor& down);

}  // namespace tachy
