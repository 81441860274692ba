// Reads what the values of a request stand for: the typed part of a Resolved.
#pragma once

#include "request/gpu_mode.h"
#include "resolve/resolved.h"

namespace tachy {

// Fills in sampler, step cache, sparse attention, sinusoid and precision, once all values are known. `gpu`
// says how a GPU is to compute; it is null on the CPU.
void read_values(const VideoRequest& values, const GpuMode* gpu, Resolved& out);

}  // namespace tachy
