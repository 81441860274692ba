// The causal 3x3x3 convolution in e4m3 by mma.sync, for GPUs since sm_89 (device/conv_halo_sm80.cuh).
#pragma once

#include <optional>

#include "cuda/conv/conv8_sm90.h"

namespace tachy::cuda {

bool conv8_sm80_available(const Stream& stream);
// It makes sums in bf16, and leaves their norm to a pass of its own.
std::optional<Refusal> conv8_sm80_why_not(const Conv8Problem& problem, const Stream& stream);
void conv8_sm80(const Conv8Problem& problem, Stream& stream);

}  // namespace tachy::cuda
