// A transformer's feed-forward: y = down(act(up(x))). Its hidden activations are wide (two to six times x):
// they live for a piece of the rows at a time.
#pragma once

#include "nn/linear.h"

namespace tachy::nn {

struct Mlp {
  Linear up, down;
  ops::Activation act = ops::Activation::gelu_tanh;

  // x [M, in] → y [M, out], which may be x. `free_rows`: of how many rows the hidden activations fit into
  // memory that the caller's widest moment takes anyway.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream, int64_t free_rows = 0) const;
};

}  // namespace tachy::nn
