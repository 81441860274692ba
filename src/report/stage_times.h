// The timesteps of a pass as the transformer takes them.
#pragma once

#include <vector>

#include "models/wan/dit.h"
#include "report/stage_io.h"

namespace tachy {

// Each distinct timestep becomes a row, and tokens point to their rows.
struct TimeRows {
  std::vector<double> timesteps;
  Tensor row;  // [batch · tokens] i32
};
TimeRows time_rows(const Tensor& time, int64_t batch, int64_t tokens, StageIo& io);

// Returns the values of clips' tokens in the order in which the grid has the tokens.
std::vector<int32_t> placed(const Tensor& row, const WanGrid& grid);

}  // namespace tachy
