// The implementations of causal_conv3d, for its table and the op runner, and the function
// that finds a tap's frame.
#pragma once

#include "ops/conv3d/conv3d.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// Frame `index` of (front history frames ++ x): in x, in the cache, or nullptr if it is zero.
inline const float* input_frame(const CausalConv3dArgs& a, int64_t index) {
  const int64_t pixels = a.x.dim(1) * a.x.dim(2) * a.x.dim(3);
  const int64_t t = index - a.front;
  if (t >= 0) return a.x.as<float>() + t * pixels;
  if (-t > a.history) return nullptr;
  return a.cache.as<float>() + (a.cache.dim(0) + t) * pixels;
}

// Refuses the norm, for all implementations but three: there it needs a separate pass.
inline std::optional<Refusal> causal_conv3d_plain(const CausalConv3dArgs& a) {
  return a.gamma.defined() ? std::optional(Refusal::arguments("it does not normalise")) : std::nullopt;
}

// Computes on panels (cpu/conv_panels.h); bf16 rounds x and weights, but sums are float32.
std::optional<Refusal> causal_conv3d_why_not_bf16(const CausalConv3dArgs& args, const Stream& stream);
void causal_conv3d_bf16(const CausalConv3dArgs& args, Stream& stream);
std::optional<Refusal> causal_conv3d_why_not_f32(const CausalConv3dArgs& args, const Stream& stream);
void causal_conv3d_f32(const CausalConv3dArgs& args, Stream& stream);
std::optional<Refusal> causal_conv3d_why_not_onednn(const CausalConv3dArgs& args, const Stream& stream);
void causal_conv3d_onednn(const CausalConv3dArgs& args, Stream& stream);
// The definition, in plain loops with sums in double.
void causal_conv3d_ref(const CausalConv3dArgs& args, Stream& stream);
// The definition with sums in float, and x rounded if the stream asks for bf16; its error sets the tolerance.
void causal_conv3d_working(const CausalConv3dArgs& args, Stream& stream);
// The GPU's implementations (cuda/conv/conv.h).
std::optional<Refusal> causal_conv3d_why_not_head(const CausalConv3dArgs& args, const Stream& stream);
void causal_conv3d_head(const CausalConv3dArgs& args, Stream& stream);
std::optional<Refusal> causal_conv3d_why_not_stem(const CausalConv3dArgs& args, const Stream& stream);
void causal_conv3d_stem(const CausalConv3dArgs& args, Stream& stream);
std::optional<Refusal> causal_conv3d_why_not_sm90(const CausalConv3dArgs& args, const Stream& stream);
void causal_conv3d_sm90(const CausalConv3dArgs& args, Stream& stream);
std::optional<Refusal> causal_conv3d_why_not_winograd(const CausalConv3dArgs& args, const Stream& stream);
std::optional<Refusal> causal_conv3d_why_slower_winograd(const CausalConv3dArgs& args, const Stream& stream);
void causal_conv3d_winograd(const CausalConv3dArgs& args, Stream& stream);
std::optional<Refusal> causal_conv3d_why_not_cudnn(const CausalConv3dArgs& args, const Stream& stream);
std::optional<Refusal> causal_conv3d_why_slower_cudnn(const CausalConv3dArgs& args, const Stream& stream);
void causal_conv3d_cudnn(const CausalConv3dArgs& args, Stream& stream);
std::optional<Refusal> causal_conv3d_why_not_sm80(const CausalConv3dArgs& args, const Stream& stream);
void causal_conv3d_sm80(const CausalConv3dArgs& args, Stream& stream);
std::optional<Refusal> causal_conv3d_why_not_tf32(const CausalConv3dArgs& args, const Stream& stream);
void causal_conv3d_tf32(const CausalConv3dArgs& args, Stream& stream);
std::optional<Refusal> causal_conv3d_why_not_simple(const CausalConv3dArgs& args, const Stream& stream);
void causal_conv3d_simple(const CausalConv3dArgs& args, Stream& stream);
std::span<const Impl<CausalConv3dArgs>> causal_conv3d_table();

}  // namespace tachy::ops
