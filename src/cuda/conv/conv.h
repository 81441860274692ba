// Convolutions of channels-last frames on the GPU: the common part of the ops conv2d, causal_conv3d and
// upsample_conv2d.
//
// The weight is packed as [phases, Co, K] in the activations' dtype. If Ci is a multiple of 8,
// K = taps x padded Ci (a multiple of 32, with zeros after Ci), otherwise taps x Ci, padded as a whole.
//   sm90    bf16, f16, Ci a multiple of 8: wgmma and bulk copies (device/conv_sm90.cuh)
//   winograd  bf16 on Hopper, 3x3x3, Ci a multiple of 32: two thirds of the products (device/conv_winograd_sm90.cuh)
//   cudnn   bf16, f16, whole multiples of 32 channels: cuDNN's graphs, where neither sm90 nor the first kernel of
//           sm80 takes it
//   sm80    bf16, f16: mma.sync and cp.async (device/conv_halo_sm80.cuh for 3x3 kernels without strides,
//           device/conv_tile_sm80.cuh in large tiles, device/conv_sm80.cuh for the rest)
//   head    bf16, f16: 3x3x3, 96 channels → 3, memory-bound (device/conv_head.cuh)
//   stem    bf16, f16: 3x3x3, 3 or 12 channels → many (device/conv_stem.cuh, device/conv_patch_stem.cuh)
//   simple  float32 with FMA, for checks
#pragma once

#include <algorithm>
#include <functional>
#include <optional>

#include "base/refusal.h"
#include "device/conv_shape.h"
#include "tensor/stream.h"

namespace tachy::cuda {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct ConvProblem {
  Tensor x;      // [T, H, W, Ci]
  Tensor cache;  // [n, H, W, Ci] or undefined; its last `history` frames lie before x
  Tensor packed, bias, residual;
  // Optional: the channel norm of the sums (ops/channel_norm), with silu if requested, goes to `normed`, or
  // to y itself if `normed` is absent.
  Tensor gamma, normed;
  bool silu = false;
  Tensor y;                      // [To, Ho, Wo, Co]; with 4 phases [To, 2H, 2W, Co]
  device::ConvShape shape = {};  // sizes; pointers and strides are filled in by the launchers
};

// Fills in the sizes from the tensors; the caller sets kernel, padding, strides and history.
ConvProblem conv_problem(const Tensor& x, const Tensor& y, int64_t phases = 1);

inline constexpr int64_t kConvMostNormed = 192;  // channels that can also be normalised: those of one tile
// Whether sm80 normalises a 3x3 convolution from `ci` to `co` channels, given enough shared memory.
inline bool conv_sm80_normalises(int64_t ci, int64_t co) {
  return ci % 32 == 0 && co >= 64 && co <= kConvMostNormed;
}

int64_t conv_padded_ci(int64_t ci);  // 0 if K is flat
int64_t conv_packed_k(int64_t ci, int64_t taps);
int64_t conv_packed_bytes(DType dtype, int64_t phases, int64_t co, int64_t ci, int64_t taps);

// Whether a 3x3x3 weight is also packed for "winograd": [Co, 18 · Ci], which follow the others.
bool conv_winograd_packs(const Gpu& gpu, DType dtype, int64_t co, int64_t ci);
// Whether that kernel takes such a convolution first, for frames of this width, and whether it can normalise as well.
bool conv_winograd_is_first(const Gpu& gpu, DType dtype, int64_t co, int64_t ci, int64_t width);
bool conv_winograd_normalises(int64_t co);

// Rearranges a row of a weight, [Ci, taps] → [taps, `step` or more], of which it writes the first Ci of each tap.
template <class T>
void gather_taps(const T* row, int64_t ci, int64_t taps, int64_t step, T* out) {
  constexpr int64_t kBlock = 32;  // channels whose taps stay in the nearest cache
  for (int64_t begin = 0; begin < ci; begin += kBlock)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t c = begin; c < std::min(ci, begin + kBlock); ++c)
        out[tap * step + c] = row[c * taps + tap];
}

// Packs a weight on the stream's GPU, in `dtype`: weight(row, out) writes row = phase·Co + o as floats [Ci,
// taps]. Several threads call it.
void conv_pack(DType dtype, int64_t phases, int64_t co, int64_t ci, int64_t taps,
               const std::function<void(int64_t, float*)>& weight, const Tensor& packed, Stream& stream);

std::optional<Refusal> conv_sm90_why_not(const ConvProblem& problem, const Stream& stream);
void conv_sm90(const ConvProblem& problem, Stream& stream);
std::optional<Refusal> conv_winograd_why_not(const ConvProblem& problem, const Stream& stream);
void conv_winograd(const ConvProblem& problem, Stream& stream);
std::optional<Refusal> conv_cudnn_why_not(const ConvProblem& problem, const Stream& stream);
void conv_cudnn(const ConvProblem& problem, Stream& stream);
std::optional<Refusal> conv_sm80_why_not(const ConvProblem& problem, const Stream& stream);
void conv_sm80(const ConvProblem& problem, Stream& stream);
// Why cuDNN would be slower: by an H100 that chose as 8.0 (bench/notes/vae.md).
std::optional<Refusal> conv_sm80_is_faster(const ConvProblem& problem, const Stream& stream);
std::optional<Refusal> conv_head_why_not(const ConvProblem& problem, const Stream& stream);
void conv_head(const ConvProblem& problem, Stream& stream);
std::optional<Refusal> conv_stem_why_not(const ConvProblem& problem, const Stream& stream);
void conv_stem(const ConvProblem& problem, Stream& stream);
std::optional<Refusal> conv_simple_why_not(const ConvProblem& problem, const Stream& stream);
void conv_simple(const ConvProblem& problem, Stream& stream);

}  // namespace tachy::cuda
