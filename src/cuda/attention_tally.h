// How often attention in 8 bits had to fall back on bf16. The kernels themselves count it on the GPU, so that
// a replayed graph counts, too (ops/attention/flash8_sm90.cuh and flash8_sm80.cuh).
#pragma once

#include "cuda/gpu.h"

namespace tachy::cuda {

// Counts groups of 16 queries of a head that were computed since the GPU was opened.
struct AttentionTally {
  uint64_t asked = 0;  // groups that may use 8 bits
  // Groups among them that were computed again in bf16, as whole units of 256 queries (Hopper) or 128 (others).
  uint64_t wide = 0;
};

// The counters on the device. The first call makes them, when an op is planned.
AttentionTally* attention_tally(Gpu& gpu);

// Waits for the queued work. Returns zeros if the kernels have no counters.
AttentionTally read_attention_tally(Gpu& gpu);

}  // namespace tachy::cuda
