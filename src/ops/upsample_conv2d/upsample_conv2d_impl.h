// The implementations of upsample_conv2d, for its table and the op runner.
#pragma once

#include "ops/impl_table.h"
#include "ops/upsample_conv2d/upsample_conv2d.h"

namespace tachy::ops {

// Computes on panels (cpu/conv_panels.h); bf16 rounds x and weights, but sums are float32.
std::optional<Refusal> upsample_conv2d_why_not_bf16(const UpsampleConv2dArgs& args, const Stream& stream);
void upsample_conv2d_bf16(const UpsampleConv2dArgs& args, Stream& stream);
std::optional<Refusal> upsample_conv2d_why_not_f32(const UpsampleConv2dArgs& args, const Stream& stream);
void upsample_conv2d_f32(const UpsampleConv2dArgs& args, Stream& stream);
std::optional<Refusal> upsample_conv2d_why_not_onednn(const UpsampleConv2dArgs& args, const Stream& stream);
void upsample_conv2d_onednn(const UpsampleConv2dArgs& args, Stream& stream);
// The definition, in plain loops with sums in double.
void upsample_conv2d_ref(const UpsampleConv2dArgs& args, Stream& stream);
// The definition with sums in float, and x rounded if the stream asks for bf16; its error sets the tolerance.
void upsample_conv2d_working(const UpsampleConv2dArgs& args, Stream& stream);
// The GPU's implementations (cuda/conv/conv.h).
std::optional<Refusal> upsample_conv2d_why_not_sm90(const UpsampleConv2dArgs& args, const Stream& stream);
void upsample_conv2d_sm90(const UpsampleConv2dArgs& args, Stream& stream);
std::optional<Refusal> upsample_conv2d_why_not_sm80(const UpsampleConv2dArgs& args, const Stream& stream);
void upsample_conv2d_sm80(const UpsampleConv2dArgs& args, Stream& stream);
std::optional<Refusal> upsample_conv2d_why_not_tf32(const UpsampleConv2dArgs& args, const Stream& stream);
void upsample_conv2d_tf32(const UpsampleConv2dArgs& args, Stream& stream);
std::optional<Refusal> upsample_conv2d_why_not_simple(const UpsampleConv2dArgs& args, const Stream& stream);
void upsample_conv2d_simple(const UpsampleConv2dArgs& args, Stream& stream);
std::span<const Impl<UpsampleConv2dArgs>> upsample_conv2d_table();

}  // namespace tachy::ops
