// The implementations of quantize and dequantize, for their tables and the op runner.
#pragma once

#include "cpu/eight_bits.h"
#include "ops/impl_table.h"
#include "ops/quantize/quantize_grid.h"

namespace tachy::ops {

// The scale for a largest value; it is written so that NaN and Inf pass through.
inline float quant_scale(float amax, DType dtype) {
  if (amax == 0) return 1;
  const float scale = amax / cpu::top_of_8_bits(dtype);
  return scale < 0x1p-126f ? 0x1p-126f : scale;
}

// Both ops are exact: every implementation gives the definition's bytes.
void quantize_ref(const QuantizeArgs& args, Stream& stream);
void quantize_cpu(const QuantizeArgs& args, Stream& stream);  // Highway
void dequantize_ref(const DequantizeArgs& args, Stream& stream);
void dequantize_cpu(const DequantizeArgs& args, Stream& stream);  // Highway
void quantize_cuda(const QuantizeArgs& args, Stream& stream);
void dequantize_cuda(const DequantizeArgs& args, Stream& stream);
std::span<const Impl<QuantizeArgs>> quantize_table();
std::span<const Impl<DequantizeArgs>> dequantize_table();

}  // namespace tachy::ops
