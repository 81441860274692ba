// Convolutions of float32 that round their operands to TF32, where Products::tf32 asks for it: 3x3 kernels without
// strides and the phases of upsampling, for GPUs since sm_80.
#pragma once

#include "cuda/conv/conv.h"

namespace tachy::cuda {

std::optional<Refusal> conv_tf32_why_not(const ConvProblem& problem, const Stream& stream);
void conv_tf32(const ConvProblem& problem, Stream& stream);

}  // namespace tachy::cuda
