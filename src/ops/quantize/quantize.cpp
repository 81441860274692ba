#include "ops/count_work.h"
#include "ops/op_helpers.h"
#include "ops/quantize/quantize_impl.h"

namespace tachy::ops {
namespace {

// Checks `wide`, the f32 matrix, and `q`, the 8-bit one.
void check(const char* op, const char* wide_name, const Tensor& wide, const Tensor& q, const Tensor& scale,
           QuantBlock block) {
  expect_shape(op, wide_name, wide, {-1, -1});
  require(wide.inner_contiguous(), "{}: expected {} with a contiguous last dim, got stride {}", op, wide_name,
          wide.stride(-1));
  expect_shape(op, "q", q, {wide.dim(0), wide.dim(1)});
  require(q.dtype == DType::f8_e4m3 || q.dtype == DType::f8_e5m2 || q.dtype == DType::i8,
          "{}: expected q f8_e4m3, f8_e5m2 or i8, got {}", op, dtype_name(q.dtype));
  require(q.inner_contiguous(), "{}: expected q with a contiguous last dim, got stride {}", op, q.stride(-1));
  require(block.rows >= 0 && block.columns >= 0, "{}: expected a block size, got {} x {}", op, block.rows,
          block.columns);
  const QuantGrid grid(wide, block);
  expect_f32(op, "scale", scale, {grid.bands, grid.strips});
  expect_contiguous(op, "scale", scale);
}

}  // namespace

std::span<const Impl<QuantizeArgs>> quantize_table() {
  static constexpr Impl<QuantizeArgs> table[] = {
      gpu_impl<quantize_cuda>("cuda"), {"cpu", nullptr, quantize_cpu}, {"ref", nullptr, quantize_ref}};
  return table;
}

std::span<const Impl<DequantizeArgs>> dequantize_table() {
  static constexpr Impl<DequantizeArgs> table[] = {
      gpu_impl<dequantize_cuda>("cuda"), {"cpu", nullptr, dequantize_cpu}, {"ref", nullptr, dequantize_ref}};
  return table;
}

// Weights are rounded from the dtype of their file, so x may be 16-bit on the CPU as well.
void quantize(const QuantizeArgs& a, Stream& stream) {
  expect_here("quantize", "x", a.x, stream);
  require(a.x.dtype == DType::f32 || a.x.dtype == DType::f16 || a.x.dtype == DType::bf16,
          "quantize: expected x f32, f16 or bf16, got {}", dtype_name(a.x.dtype));
  check("quantize", "x", a.x, a.q, a.scale, a.block);
  if (count_pass("quantize", a.x.dtype, {a.x, a.q, a.scale}, stream)) return;
  pick<QuantizeArgs>("quantize", quantize_table(), a, stream).run(a, stream);
}

void dequantize(const DequantizeArgs& a, Stream& stream) {
  expect_float_dtype("dequantize", "y", a.y, stream);
  check("dequantize", "y", a.y, a.q, a.scale, a.block);
  if (count_pass("dequantize", a.y.dtype, {a.q, a.scale, a.y}, stream)) return;
  const auto& impl = pick<DequantizeArgs>("dequantize", dequantize_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
