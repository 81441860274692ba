#include <cmath>

#include "ops/op_helpers.h"
#include "ops/quantize/quantize_impl.h"

namespace tachy::ops {
namespace {

uint8_t quantized(float x, float scale, DType dtype) {
  const float top = cpu::top_of_8_bits(dtype);
  float v = x / scale;
  if (std::isnan(v)) return dtype == DType::i8 ? 0 : 0x7f;
  v = std::min(std::max(v, -top), top);
  if (dtype == DType::f8_e4m3) return to_f8_e4m3(v).bits;
  if (dtype == DType::f8_e5m2) return to_f8_e5m2(v).bits;
  return static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(v)));
}

float value_of(uint8_t q, DType dtype) {
  if (dtype == DType::f8_e4m3) return to_float(f8_e4m3_t{q});
  if (dtype == DType::f8_e5m2) return to_float(f8_e5m2_t{q});
  return static_cast<float>(static_cast<int8_t>(q));
}

float at(const Tensor& x, int64_t i, int64_t j) {
  if (x.dtype == DType::bf16) return to_float(row_of<bf16_t>(x, i)[j]);
  if (x.dtype == DType::f16) return to_float(row_of<f16_t>(x, i)[j]);
  return row_ptr(x, i)[j];
}

// Calls body(i, j) for the values of block `b`.
template <class Body>
void for_block(const QuantGrid& grid, int64_t b, Body&& body) {
  const int64_t row = b / grid.strips * grid.block_rows, column = b % grid.strips * grid.block_columns;
  for (int64_t i = row; i < std::min(grid.rows, row + grid.block_rows); ++i)
    for (int64_t j = column; j < std::min(grid.columns, column + grid.block_columns); ++j) body(i, j);
}

}  // namespace

void quantize_ref(const QuantizeArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  const QuantGrid grid(a.x, a.block);
  parallel_ranges(stream, grid.bands * grid.strips, 1, [&](int64_t b, int64_t, int) {
    float& scale = a.scale.as<float>()[b];
    if (!a.given_scale) {
      float amax = 0;
      for_block(grid, b, [&](int64_t i, int64_t j) {
        const float v = std::abs(at(a.x, i, j));
        if (v > amax || std::isnan(v)) amax = std::isnan(amax) ? amax : v;
      });
      scale = quant_scale(amax, a.q.dtype);
    }
    for_block(grid, b, [&](int64_t i, int64_t j) {
      row_of<uint8_t>(a.q, i)[j] = quantized(at(a.x, i, j), scale, a.q.dtype);
    });
  });
}

void dequantize_ref(const DequantizeArgs& a, Stream& stream) {
  const QuantGrid grid(a.y, a.block);
  parallel_ranges(stream, grid.bands * grid.strips, 1, [&](int64_t b, int64_t, int) {
    const float scale = a.scale.as<float>()[b];
    for_block(grid, b, [&](int64_t i, int64_t j) {
      row_of<float>(a.y, i)[j] = value_of(row_of<uint8_t>(a.q, i)[j], a.q.dtype) * scale;
    });
  });
}

}  // namespace tachy::ops
