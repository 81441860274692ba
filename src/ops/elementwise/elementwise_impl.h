// The implementations of the elementwise ops, for their tables and the op runner.
#pragma once

#include "ops/elementwise/elementwise_args.h"
#include "ops/impl_table.h"

namespace tachy::ops {

// Computes in float32, as the formula says, and rounds every product and sum.
void lincomb_ref(const LincombArgs& args, Stream& stream);
void widen_ref(const WidenArgs& args, Stream& stream);
void copy_ref(const CopyArgs& args, Stream& stream);
void to_rgb8_ref(const ToRgb8Args& args, Stream& stream);
void clamp_ref(const ClampArgs& args, Stream& stream);
void all_finite_ref(const AllFiniteArgs& args, Stream& stream);
void mark_nonfinite_ref(const MarkNonfiniteArgs& args, Stream& stream);

void lincomb_cpu(const LincombArgs& args, Stream& stream);
void widen_cpu(const WidenArgs& args, Stream& stream);
void copy_cpu(const CopyArgs& args, Stream& stream);
void to_rgb8_cpu(const ToRgb8Args& args, Stream& stream);
void clamp_cpu(const ClampArgs& args, Stream& stream);
void all_finite_cpu(const AllFiniteArgs& args, Stream& stream);
void mark_nonfinite_cpu(const MarkNonfiniteArgs& args, Stream& stream);

void lincomb_cuda(const LincombArgs& args, Stream& stream);
void widen_cuda(const WidenArgs& args, Stream& stream);
void copy_cuda(const CopyArgs& args, Stream& stream);
void to_rgb8_cuda(const ToRgb8Args& args, Stream& stream);
void clamp_cuda(const ClampArgs& args, Stream& stream);
void all_finite_cuda(const AllFiniteArgs& args, Stream& stream);
void mark_nonfinite_cuda(const MarkNonfiniteArgs& args, Stream& stream);

std::span<const Impl<LincombArgs>> lincomb_table();
std::span<const Impl<WidenArgs>> widen_table();
std::span<const Impl<CopyArgs>> copy_table();
std::span<const Impl<ToRgb8Args>> to_rgb8_table();
std::span<const Impl<ClampArgs>> clamp_table();
std::span<const Impl<AllFiniteArgs>> all_finite_table();
std::span<const Impl<MarkNonfiniteArgs>> mark_nonfinite_table();

}  // namespace tachy::ops
