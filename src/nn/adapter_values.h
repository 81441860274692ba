// The matrices of a layer's adapters in the form in which they are kept: all A stacked, all B side by side,
// each padded with zeros to a rank that suits products and that other adapters share. They are made while
// they are uploaded.
#pragma once

#include <memory>
#include <vector>

#include "nn/params.h"

namespace tachy::nn {

struct LowRank;  // nn/adapter_set.h
// Adapters of one layer, in the order in which they were given.
using LayerAdapters = std::vector<const LowRank*>;

// Pads Σ r_i. On a device it becomes one of a few sizes, so that the next adapters can reuse the memory and
// the recorded steps of the previous ones; on the host it is the next multiple of 8.
int64_t padded_rank(const LayerAdapters& adapters, bool on_device);

// All A_i [r_i, in], stacked: [rank, in]. The adapters must live as long as the result.
WeightPart stacked_a(const LayerAdapters& adapters, int64_t rank);
// All B_i [out, r_i], side by side: [out, rank].
WeightPart stacked_b(const LayerAdapters& adapters, int64_t rank);

}  // namespace tachy::nn
