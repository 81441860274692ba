// How often attention in 8 bits had to fall back on bf16, counted on the GPU by the kernels themselves, so that a replayed
// graph counts, too (ops/attention/flash8_sm90.cuh).
#pragma once

#include "cuda/gpu.h"

namespace tachy::cuda {

// Counts groups of 16 queries of a head, since the GPU was opened.
struct AttentionTally {
  uint64_t asked = 0;  // those that may use 8 bits
  uint64_t wide = 0;   // of these, computed again in bf16: whole units of 256 queries
};

// Where the kernels count, on the device. It is made by the first call, when an op is planned.
AttentionTally* attention_tally(Gpu& gpu);

// Waits for the queued work. Returns zeros if nothing is counted.
AttentionTally read_attention_tally(Gpu& gpu);

}  // namespace tachy::cuda
