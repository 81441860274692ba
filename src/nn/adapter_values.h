// The matrices of a layer's adapters as they are kept: all A one below another, all B side by side, each filled up
// with zeros to a rank that products like and that other adapters share. They are made while they are uploaded.
#pragma once

#include <memory>
#include <vector>

#include "nn/params.h"

namespace tachy::nn {

struct LowRank;                                     // nn/adapter_set.h
using LayerAdapters = std::vector<const LowRank*>;  // of one layer, in the order in which they were given

// Of Σ r_i. On a device one of a few sizes, so that the next adapters find the memory and the recorded steps of
// those before them; on the host the next multiple of 8.
int64_t padded_rank(const LayerAdapters& adapters, bool on_device);

// A_i [r_i, in] one below another: [rank, in]. All of them live as long as the result.
WeightPart stacked_a(const LayerAdapters& adapters, int64_t rank);
// B_i [out, r_i] side by side: [out, rank].
WeightPart stacked_b(const LayerAdapters& adapters, int64_t rank);

}  // namespace tachy::nn
