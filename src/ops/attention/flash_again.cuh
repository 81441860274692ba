// Computes blocks of queries again in bf16, for kernels that leave out what few rows need.
#pragma once

#include <cstdint>

#include "ops/attention/attention.h"

namespace tachy::ops::flash {

struct Again {
  const uint8_t* bad;         // [B·H, tiles, warps]: whether a row among 32 queries needs it
  int tiles, warps;           // warps: a multiple of 4
  unsigned long long* count;  // counts groups of 16 queries that were computed again; may be null
};

inline constexpr int64_t kMostQueries = 128 * 65535;

// Queues one launch, which ends at once where nothing is noted. The arguments have several ranges of keys, with masks
// and key biases, or one, of which lists may name blocks.
void compute_again(const AttentionArgs& args, const Again& again, Stream& stream);

}  // namespace tachy::ops::flash
