// The functions of gemm's kernels that its host code calls. nvcc accepts this header.
#pragma once

#include "ops/gemm/gemm.h"

namespace tachy::ops {

// Computes y's rows [first, first + rows) from those of x·Wᵀ, product [rows, N] f32.
void gemm_epilogue_cuda(const GemmArgs& args, const Tensor& product, int64_t first, int64_t rows,
                        Stream& stream);

}  // namespace tachy::ops
