// The implementations of scaled_conv3d, for its table and the op runner, and the common
// code of those for the CPU.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/codes.h"
#include "ops/impl_table.h"
#include "ops/scaled_conv3d/scaled_conv3d.h"

namespace tachy::ops {

std::optional<Refusal> scaled_conv3d_why_not_sm90(const ScaledConv3dArgs& args, const Stream& stream);
void scaled_conv3d_sm90(const ScaledConv3dArgs& args, Stream& stream);
// By mma.sync, for GPUs since sm_80 (codes of int8) or sm_89 (e4m3).
std::optional<Refusal> scaled_conv3d_why_not_sm80(const ScaledConv3dArgs& args, const Stream& stream);
void scaled_conv3d_sm80(const ScaledConv3dArgs& args, Stream& stream);
bool scaled_conv3d_on_gpu(const Stream& stream, DType codes);  // defined in builds with CUDA
// The form in which weights are packed on a CPU, whatever the stream's arithmetic: bf16 holds every code.
inline constexpr Compute kScaledConvCompute = Compute::bf16;
// Computes on panels of bf16, or of float32.
std::optional<Refusal> scaled_conv3d_why_not_bf16(const ScaledConv3dArgs& args, const Stream& stream);
void scaled_conv3d_bf16(const ScaledConv3dArgs& args, Stream& stream);
std::optional<Refusal> scaled_conv3d_why_not_f32(const ScaledConv3dArgs& args, const Stream& stream);
void scaled_conv3d_f32(const ScaledConv3dArgs& args, Stream& stream);
// Turns the codes into float32 and uses the vendor library's convolution.
std::optional<Refusal> scaled_conv3d_why_not_onednn(const ScaledConv3dArgs& args, const Stream& stream);
void scaled_conv3d_onednn(const ScaledConv3dArgs& args, Stream& stream);
void scaled_conv3d_ref(const ScaledConv3dArgs& args, Stream& stream);  // the definition, with sums in double
// The definition in float; its error sets the tolerance.
void scaled_conv3d_working(const ScaledConv3dArgs& args, Stream& stream);
std::span<const Impl<ScaledConv3dArgs>> scaled_conv3d_table();

// A tensor with the shape of the result, which y, normed or both have.
inline const Tensor& scaled_conv3d_result(const ScaledConv3dArgs& a) {
  return a.y.defined() ? a.y : a.normed;
}
// Where in `packed` the scales of the output channels lie.
inline int64_t scaled_conv3d_scales_at(const ScaledConv3dArgs& a) {
  return a.packed.numel() - scaled_conv3d_result(a).dim(3) * static_cast<int64_t>(sizeof(float));
}

// For a CPU: frame `index` of (2 frames of history ++ x) as codes, or null if it is zero.
inline const uint8_t* scaled_conv3d_frame(const ScaledConv3dArgs& a, int64_t index) {
  const int64_t pixels = a.x.dim(1) * a.x.dim(2) * a.x.dim(3), t = index - 2;
  if (t >= 0) return static_cast<const uint8_t*>(a.x.data) + t * pixels;
  if (-t > a.history) return nullptr;
  return static_cast<const uint8_t*>(a.cache.data) + (a.cache.dim(0) + t) * pixels;
}

// Turns the sums of codes [Co] of position `at` into the results that the call asks for; overwrites the sums.
template <class Sum>
void scaled_conv3d_finish(const ScaledConv3dArgs& a, int64_t at, Sum* sums) {
  const int64_t co = scaled_conv3d_result(a).dim(3), first = at * co;
  const auto* scale =
      reinterpret_cast<const float*>(static_cast<const char*>(a.packed.data) + scaled_conv3d_scales_at(a));
  Sum squares = 0;
  for (int64_t o = 0; o < co; ++o) {
    sums[o] *= static_cast<Sum>(scale[o]);
    if (a.bias.defined()) sums[o] += static_cast<Sum>(a.bias.as<float>()[o]);
    if (a.residual.defined()) sums[o] += static_cast<Sum>(a.residual.as<float>()[first + o]);
    squares += sums[o] * sums[o];
  }
  if (a.y.defined())
    for (int64_t o = 0; o < co; ++o) a.y.as<float>()[first + o] = static_cast<float>(sums[o]);
  if (!a.gamma.defined()) return;
  const Sum factor = std::sqrt(static_cast<Sum>(co)) / std::max(std::sqrt(squares), static_cast<Sum>(1e-12));
  for (int64_t o = 0; o < co; ++o) {
    const Sum n = sums[o] * factor * static_cast<Sum>(a.gamma.as<float>()[o]);
    const Sum v = a.silu ? n / (1 + std::exp(-n)) : n;
    if (!is_code(a.normed.dtype)) {
      a.normed.as<float>()[first + o] = static_cast<float>(v);
      continue;
    }
    static_cast<uint8_t*>(a.normed.data)[first + o] =
        code_of(static_cast<float>(v / static_cast<Sum>(a.normed_scale)), a.normed.dtype);
  }
}

}  // namespace tachy::ops
