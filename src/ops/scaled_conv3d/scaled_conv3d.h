// Causal 3x3x3 convolution in 8 bits over channels-last frames, streaming (ops/conv3d in e4m3). x and the
// weight are codes; one scale belongs to all of x, one to each output channel of the weight:
//   sum[t, i, j, o] = s[o]·Σ_{r, p, q, c} W[o, c, r, p, q]·in[t + r, i + p − 1, j + q − 1, c] + bias[o]
//                     + residual[t, i, j, o],        in = 2 frames of history ++ x
// s[o] is x's scale times the weight's. What the layer behind needs of the sums may be made on the way: their
// channel norm with silu (ops/channel_norm), as numbers of y's kind or as the codes of the next convolution.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct ScaledConv3dArgs {
  Tensor x;             // [T, H, W, Ci] f8_e4m3, contiguous
  Tensor cache;         // optional [n, H, W, Ci] as x: the frames just before x, oldest first
  int64_t history = 0;  // how many of the cache's LAST frames are valid; the others count as zeros
  Tensor packed;        // what pack_scaled_conv3d_weight made, u8
  Tensor bias;          // optional [Co] f32
  Tensor residual;      // optional [T, H, W, Co] f32 (on a GPU 16-bit), may alias y or normed
  Tensor y;             // the sums, [T, H, W, Co] of the residual's dtype, contiguous; optional with gamma

  Tensor gamma;   // optional [Co] f32: of the norm
  Tensor normed;  // with gamma: [T, H, W, Co] of y's dtype, or f8_e4m3: codes of norm / normed_scale
  float normed_scale = 1;
  bool silu = true;
};

// Whether this stream has an implementation that is worth calling: any CPU (where it is slow), and
// Hopper with activations in bf16.
bool scaled_conv3d_runs(const Stream& stream);

// Whether this call, with its gamma, has one; without gamma there is one wherever scaled_conv3d_runs.
bool scaled_conv3d_normalises(const ScaledConv3dArgs& args, const Stream& stream);

void scaled_conv3d(const ScaledConv3dArgs& args, Stream& stream);

int64_t packed_scaled_conv3d_bytes(int64_t co, int64_t ci, const Stream& stream);
// weight on the host [Co, Ci, 3, 3, 3] (any float dtype, contiguous) → packed u8, where the stream's ops run:
// codes of each output channel, its largest value 448, and behind them the scales s.
void pack_scaled_conv3d_weight(const Tensor& weight, float x_scale, const Tensor& packed, Stream& stream);

}  // namespace tachy::ops
