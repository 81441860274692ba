// The compiled tiles of the Hopper convolution and the data for a launch, for
// conv_sm90.cpp and the .cu files.
#pragma once

#include <span>

#include "cuda/conv/conv.h"
#include "cuda/runtime.h"
#include "device/conv_sm90_params.h"

namespace tachy::cuda {

struct Conv90Maps {
  CUtensorMap chunk, cache, residual, weights;
};

struct Conv90Entry {
  int taps, chunk, n, mi;
  void (*launch)(const Conv90Maps&, const device::Conv90Params&, int blocks, const Stream&);
  int positions() const { return 128 * mi; }
};

std::span<const Conv90Entry> conv90_entries_bf16();
std::span<const Conv90Entry> conv90_entries_f16();

// The parameters for tiles of `positions` outputs, 2^columns_log2 of them in a row, by `n` channels, with steps of
// `chunk` input channels.
device::Conv90Params conv90_params(const ConvProblem& problem, int positions, int n, int chunk,
                                   int columns_log2);

}  // namespace tachy::cuda
