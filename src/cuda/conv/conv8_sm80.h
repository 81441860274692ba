// The causal 3x3x3 convolution in 8 bits by mma.sync: in e4m3 for GPUs since sm_89, in int8 since sm_80
// (device/conv_halo_sm80.cuh).
#pragma once

#include <optional>

#include "cuda/conv/conv8_sm90.h"

namespace tachy::cuda {

bool conv8_sm80_available(const Stream& stream, DType codes);
// It makes sums in bf16, and leaves their norm to a pass of its own.
std::optional<Refusal> conv8_sm80_why_not(const Conv8Problem& problem, const Stream& stream);
void conv8_sm80(const Conv8Problem& problem, Stream& stream);

}  // namespace tachy::cuda
