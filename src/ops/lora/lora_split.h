// The kernels that lora_cublaslt calls. nvcc accepts this header.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

// Splits low [M, n·r] f32, times scales [n] (or 1), into two 16-bit values whose sum it is: a row of pairs
// [M, 2·n·r] holds all high halves, and after them the rests.
void lora_split_cuda(const Tensor& low, const Tensor& scales, int64_t rank, const Tensor& pairs,
                     Stream& stream);
// Writes all of b [n, N, r] side by side, and then once more: wide [N, 2·n·r].
void lora_gather_cuda(const Tensor& b, const Tensor& wide, Stream& stream);

}  // namespace tachy::ops
