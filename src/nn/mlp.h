// A transformer's feed-forward, whose hidden activations are two to six times as wide as x:
//   y = [residual +] down(act(up(x)))        or, gated:   y = [residual +] down(act(gate(x)) ⊙ up(x))
// The hidden activations are computed for only a part of the rows at a time.
#pragma once

#include "nn/linear.h"

namespace tachy::nn {

struct Mlp {
  Linear up, down;
  Linear gate;  // undefined if it is not gated
  ops::Activation act = ops::Activation::gelu_tanh;

  struct Options {
    Tensor residual = {};  // [M, out], may be y
    // Codes of x; if given, x is not read (Linear::takes_codes). A gated feed-forward does not take them.
    RowCodes codes = {};
    int64_t free_rows = 0;  // rows whose hidden activations fit into memory that is taken anyway
  };
  // Computes x [M, in] → y [M, out]; y may be x.
  void operator()(const Tensor& x, const Tensor& y, Stream& stream, const Options& options) const;
  void operator()(const Tensor& x, const Tensor& y, Stream& stream) const { (*this)(x, y, stream, {}); }
};

}  // namespace tachy::nn
