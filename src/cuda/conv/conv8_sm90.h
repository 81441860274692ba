// The causal 3x3x3 convolution in e4m3 on Hopper (device/conv8_sm90.cuh): its arguments and its launch.
#pragma once

#include <optional>
#include <span>

#include "cuda/conv/conv.h"
#include "device/conv8_params.h"

namespace tachy::cuda {

struct Conv8Problem {
  // x and cache are codes [T, H, W, Ci], e4m3 or int8; packed is codes [Co, 27, Ci padded to 32]; y is the tensor that
  // gives the shape, in bf16 or codes; gamma, normed and silu are as in ConvProblem. The sums go to `sums`,
  // in bf16, or nowhere.
  ConvProblem conv;
  Tensor sums;
  const void* scale = nullptr;  // [Co] f32
  float normed_scale = 1;       // scale of codes in `normed`
};

bool conv8_sm90_available(const Stream& stream, DType codes);  // which are e4m3
std::optional<Refusal> conv8_sm90_why_not(const Conv8Problem& problem, const Stream& stream);
void conv8_sm90(const Conv8Problem& problem, Stream& stream);

// The compiled tiles (conv8_sm90_tiles.cu).
struct Conv8Entry {
  int wide, narrow, n, mi;
  void (*launch)(const device::Conv8Maps&, const device::Conv8Params&, int blocks, const Stream&);
  int positions() const { return 128 * mi; }
  int chunk() const { return wide + narrow; }
};
std::span<const Conv8Entry> conv8_entries();

}  // namespace tachy::cuda
