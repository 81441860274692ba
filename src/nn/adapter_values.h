// The matrices of a layer's adapters as they are stored: all A stacked and all B side by side, both padded
// with zeros to a rank that suits products and that other adapters share. They are made while they are
// uploaded.
#pragma once

#include <memory>
#include <vector>

#include "nn/params.h"

namespace tachy::nn {

struct LowRank;  // nn/adapter_set.h
// Adapters of one layer, in the order in which they were given.
using LayerAdapters = std::vector<const LowRank*>;

// Rounds Σ r_i up. On a device it becomes one of a few sizes, so that the next adapters can reuse the memory
// and the recorded steps of these; on the host it becomes a multiple of 8.
int64_t padded_rank(const LayerAdapters& adapters, bool on_device);

// Stacks all A_i [r_i, in] into [rank, in]. The adapters must outlive the result.
WeightPart stacked_a(const LayerAdapters& adapters, int64_t rank);
// Puts all B_i [out, r_i] side by side: [out, rank].
WeightPart stacked_b(const LayerAdapters& adapters, int64_t rank);

}  // namespace tachy::nn
