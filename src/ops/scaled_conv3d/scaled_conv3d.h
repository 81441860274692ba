// Causal 3x3x3 convolution in 8 bits over channels-last frames, streaming (ops/conv3d in e4m3 or int8). x and
// the weight are codes of one kind; there is one scale for all of x, and one for each output channel of the weight:
//   sum[t, i, j, o] = s[o]·Σ_{r, p, q, c} W[o, c, r, p, q]·in[t + r, i + p − 1, j + q − 1, c] + bias[o]
//                     + residual[t, i, j, o],        in = 2 frames of history ++ x
// s[o] is x's scale times the weight's. The next layer's input may be made in the same pass: the sums'
// channel norm with silu (ops/channel_norm), as numbers of y's dtype or as codes for the next convolution.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct ScaledConv3dArgs {
  Tensor x;             // [T, H, W, Ci] f8_e4m3 or i8, contiguous
  Tensor cache;         // optional [n, H, W, Ci] as x: the frames just before x, oldest first
  int64_t history = 0;  // how many of the cache's LAST frames are valid; the others count as zeros
  Tensor packed;        // result of pack_scaled_conv3d_weight, u8
  Tensor bias;          // optional [Co] f32
  Tensor residual;      // optional [T, H, W, Co] f32 (on a GPU 16-bit), may alias y or normed
  Tensor y;             // the sums, [T, H, W, Co] of the residual's dtype, contiguous; optional with gamma

  Tensor gamma;   // optional [Co] f32, for the norm
  Tensor normed;  // with gamma: [T, H, W, Co] of y's dtype, or of x's: codes of norm / normed_scale
  float normed_scale = 1;
  bool silu = true;
};

// Whether this stream has an implementation for codes of this dtype that is worth calling: on any CPU (where
// it is slow), and with activations in bf16 on GPUs whose tensor cores multiply them (e4m3 from sm_89 on, i8
// from sm_80 on).
bool scaled_conv3d_runs(const Stream& stream, DType codes = DType::f8_e4m3);

// Whether there is one for this call with its gamma; without gamma there is one wherever scaled_conv3d_runs.
bool scaled_conv3d_normalises(const ScaledConv3dArgs& args, const Stream& stream);

void scaled_conv3d(const ScaledConv3dArgs& args, Stream& stream);

int64_t packed_scaled_conv3d_bytes(int64_t co, int64_t ci, const Stream& stream);
// Packs a weight on the host, [Co, Ci, 3, 3, 3] (any float dtype, contiguous), as u8 where the stream's ops
// run: codes of each output channel, whose largest value is 448 or 127, and after them the scales s.
void pack_scaled_conv3d_weight(const Tensor& weight, float x_scale, const Tensor& packed, Stream& stream,
                               DType codes = DType::f8_e4m3);

}  // namespace tachy::ops
