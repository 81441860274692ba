// Parameters of the Hopper convolution with fewer products, made by the host.
#pragma once

#include "device/conv_sm90_params.h"

namespace tachy::device {

// Maps of frames show pairs of columns: [channels, columns, rows, frames], where one step is two columns. The
// odd column of a pair is `side_channels` channels (in the residual `side_residual`) and `side_columns` columns on.
struct ConvWinogradMaps {
  CUtensorMap chunk, cache, residual;
  CUtensorMap weights, sums;  // [K, Co]: as given, and (g0 ± g1 + g2) / 2
};

struct ConvWinogradParams {
  Conv90Params c;
  int pair_columns, side_columns, side_channels, side_residual;
};

}  // namespace tachy::device
