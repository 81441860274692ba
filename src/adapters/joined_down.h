// Multiplies the tensor in the middle of a pair (lora_mid) into the pair's second factor.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace tachy {

// mid [r, r, kernel…] is between a pair's factors: A'[p, i, kernel] = Σ mid[p, q, kernel]·A[q, i].
std::vector<float> joined_down(const Tensor& mid, const Tensor& down);

}  // namespace tachy
