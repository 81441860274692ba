// A transformer's feed-forward, whose hidden activations are wide (two to six times x):
//   y = [residual +] down(act(up(x)))        or, gated:   y = [residual +] down(act(gate(x)) ⊙ up(x))
// They are computed for a piece of the rows at a time.
#pragma once

#include "nn/linear.h"

namespace tachy::nn {

struct Mlp {
  Linear up, down;
  Linear gate;  // undefined if it is not gated
  ops::Activation act = ops::Activation::gelu_tanh;

  struct Options {
    Tensor residual = {};  // [M, out], may be y
    // Codes of x; if they are given, x is not read (Linear::takes_codes). Not for a gated one.
    RowCodes codes = {};
    int64_t free_rows = 0;  // for how many rows the hidden activations fit into memory that is taken anyway
  };
  // x [M, in] → y [M, out], which may be x.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream, const Options& options) const;
  void operator()(const Tensor& x, const Tensor& y, Stream& stream) const { (*this)(x, y, stream, {}); }
};

}  // namespace tachy::nn
