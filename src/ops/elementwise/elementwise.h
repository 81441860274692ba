// The small elementwise ops: linear combination (guidance and sampler steps in one pass),
// widening, strided copies with a per-channel affine map, output of pixels, and the finite check
// behind "NaN in a stage is an error".
#pragma once

#include <array>

#include "tensor/stream.h"

namespace tachy::ops {

struct LincombTerm {
  Tensor x;  // same shape as out, contiguous f32
  float coefficient = 1;
};

// out = Σ coefficient_i · x_i, at most 8 terms, which are added in order, each product rounded; out may
// alias any x.
struct LincombArgs {
  std::array<LincombTerm, 8> terms;
  int count = 0;
  Tensor out;  // contiguous f32
};
void lincomb(const LincombArgs& args, Stream& stream);

// y = float32(x) for any float dtype, both contiguous. On the GPU y may also be f16 or bf16 (nearest even).
void widen(const Tensor& x, const Tensor& y, Stream& stream);

// y = x · scale[c] + shift[c] over any strides (layout changes such as [C,T,H,W] to [T,H,W,C] through
// Tensor::transpose); c is the index along `channel_axis` of x and y. scale and shift may be absent.
struct CopyArgs {
  Tensor x;             // f32 (GPU: also 16-bit), rank up to 6, any strides
  Tensor scale, shift;  // optional [C] f32
  int channel_axis = 0;
  Tensor y;  // f32 (GPU: also 16-bit), same shape, any strides
};
void copy(const CopyArgs& args, Stream& stream);

// Pixels: y = round(clamp((x + 1)/2, 0, 1) · 255), x [.., 3] f32 contiguous → y same shape u8.
void to_rgb8(const Tensor& x, const Tensor& y, Stream& stream);

// Clamps x to [lo, hi] in place.
void clamp(const Tensor& x, float lo, float hi, Stream& stream);

// True if no value is NaN or Inf (always true in a measure run). It waits for the GPU, so it must not be used
// in captured work.
bool all_finite(const Tensor& x, Stream& stream);

// Sets flag [1] i32 to 1 if a value of x is NaN or Inf, and leaves it as it is otherwise. It never waits: the
// flag is read later.
void mark_nonfinite(const Tensor& x, const Tensor& flag, Stream& stream);

}  // namespace tachy::ops
