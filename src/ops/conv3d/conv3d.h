// Causal 3-D convolution over channels-last frames, streaming: y[t] = Σ_j W_j ∗ in[t·time_stride + j] + bias,
// where in = front history frames ++ x, and W_j is the 2-D kernel of time tap j. History comes from a cache
// that the caller keeps; frames that the cache does not hold yet are zeros. It is computed as one
// accumulating 2-D convolution per tap, each of which reads its frame in place: no padded or concatenated
// copy is ever made.
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct CausalConv3dArgs {
  Tensor x;             // [T, H, W, Ci] f32 (on a GPU f16 or bf16, too), contiguous
  Tensor cache;         // optional [n, H, W, Ci] as x: the frames just before x, oldest first
  int64_t history = 0;  // how many of the cache's LAST frames are valid; the others count as zeros
  // Frames before x that the kernel reaches: kernel_t − 1 (1 for the time-strided downsampler).
  int64_t front = 2;
  int64_t time_stride = 1;
  Tensor packed;                                     // result of pack_conv3d_weight, u8
  int64_t kernel_t = 3, kernel_h = 3, kernel_w = 3;  // spatial padding (kernel − 1)/2 on each side
  Tensor bias;                                       // optional [Co] f32
  Tensor residual;                                   // optional [To, H, W, Co], like x, may alias y
  // [To, H, W, Co], like x, contiguous; To = (front + T − kernel_t) / time_stride + 1. Its frames may lie
  // apart if there is neither residual nor gamma.
  Tensor y;

  // Optional [Co] f32. If given, the sums' channel norm (ops/channel_norm), with silu if requested, goes to
  // `normed`, or to y in place of the sums if `normed` is absent. Only for callers that have asked
  // causal_conv3d_normalises.
  Tensor gamma, normed;  // normed has y's form
  bool silu = true;
};

// Whether the implementation that this stream would get accepts `gamma`, which saves a pass over y.
bool causal_conv3d_normalises(const CausalConv3dArgs& args, const Stream& stream);

void causal_conv3d(const CausalConv3dArgs& args, Stream& stream);

// `compute` is that of the stream, which must be the same at packing and at use.
int64_t packed_conv3d_bytes(int64_t co, int64_t ci, int64_t kernel_t, int64_t kernel_h, int64_t kernel_w,
                            Compute compute = Compute::f32);
// The same for the device where the stream's ops run, because a GPU's weights have their own layout and dtype
// (stream.precision.activation) and lie on the device.
int64_t packed_conv3d_bytes(int64_t co, int64_t ci, int64_t kernel_t, int64_t kernel_h, int64_t kernel_w,
                            const Stream& stream);
// Packs a weight on the host, [Co, Ci, kt, kh, kw] (any float dtype, contiguous), as u8.
void pack_conv3d_weight(const Tensor& weight, const Tensor& packed, Stream& stream);

// Keeps the last n = cache.dim(0) frames of (valid history ++ x) at the end of the cache, and
// returns the new history count (at most n). In a measure run tensors may have no data. Frames hold
// numbers or codes (f8_e4m3).
int64_t push_frames(const Tensor& cache, int64_t history, const Tensor& x, Stream& stream);

}  // namespace tachy::ops
