// The implementations of conv2d, for its table and the op runner.
#pragma once

#include "ops/conv2d/conv2d.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// Computes on panels (cpu/conv_panels.h); bf16 rounds x and weights, but sums are float32.
std::optional<Refusal> conv2d_why_not_bf16(const Conv2dArgs& args, const Stream& stream);
void conv2d_bf16(const Conv2dArgs& args, Stream& stream);
std::optional<Refusal> conv2d_why_not_f32(const Conv2dArgs& args, const Stream& stream);
void conv2d_f32(const Conv2dArgs& args, Stream& stream);
std::optional<Refusal> conv2d_why_not_onednn(const Conv2dArgs& args, const Stream& stream);
void conv2d_onednn(const Conv2dArgs& args, Stream& stream);
void conv2d_ref(const Conv2dArgs& args, Stream& stream);  // the definition, with sums in double
// The definition with sums in float, and x rounded if the stream asks for bf16; its error sets the tolerance.
void conv2d_working(const Conv2dArgs& args, Stream& stream);
// The GPU's implementations (cuda/conv/conv.h).
std::optional<Refusal> conv2d_why_not_sm90(const Conv2dArgs& args, const Stream& stream);
void conv2d_sm90(const Conv2dArgs& args, Stream& stream);
std::optional<Refusal> conv2d_why_not_cudnn(const Conv2dArgs& args, const Stream& stream);
std::optional<Refusal> conv2d_why_slower_cudnn(const Conv2dArgs& args, const Stream& stream);
void conv2d_cudnn(const Conv2dArgs& args, Stream& stream);
std::optional<Refusal> conv2d_why_not_sm80(const Conv2dArgs& args, const Stream& stream);
void conv2d_sm80(const Conv2dArgs& args, Stream& stream);
std::optional<Refusal> conv2d_why_not_tf32(const Conv2dArgs& args, const Stream& stream);
void conv2d_tf32(const Conv2dArgs& args, Stream& stream);
std::optional<Refusal> conv2d_why_not_simple(const Conv2dArgs& args, const Stream& stream);
void conv2d_simple(const Conv2dArgs& args, Stream& stream);
std::span<const Impl<Conv2dArgs>> conv2d_table();

}  // namespace tachy::ops
