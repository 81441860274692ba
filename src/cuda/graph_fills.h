// Turns the memsets of a recorded graph into kernels. Libraries clear counters of tiles before some products
// (cuBLASLt does in 75 of the 787 nodes of a pass of Matrix-Game 2), and the driver launches a graph in
// constant time only if it is a chain of kernels alone.
#pragma once

#include "cuda/runtime.h"

namespace tachy::cuda {

// Replaces every memset of one row; those of several rows stay. The order of work does not change.
void fill_by_kernels(cudaGraph_t graph);

}  // namespace tachy::cuda
