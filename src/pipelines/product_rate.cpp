#include "pipelines/product_rate.h"

#include <algorithm>

#include "ops/gemm/gemm.h"
#include "ops/quantize/quantize.h"
#include "ops/scaled_gemm/scaled_gemm.h"
#include "pipelines/stage_clock.h"

namespace tachy {
namespace {

constexpr int64_t kSize = 512;
constexpr double kSeconds = 0.03;

struct Matrix {
  Matrix(DType dtype, std::initializer_list<int64_t> dims, float value = 0)
      : data(static_cast<size_t>(Tensor(nullptr, dtype, dims).bytes())), tensor(data.tensor(dtype, dims)) {
    if (dtype == DType::f32) std::fill_n(tensor.as<float>(), tensor.numel(), value);
  }

  Buffer data;
  Tensor tensor;
};

// `layer` again and again, after a measure run of both, which tells their scratch.
template <class Prepare, class Layer>
double rate_of(Stream stream, Prepare&& prepare, Layer&& layer) {
  Arena measure;
  stream.arena = &measure;
  prepare(stream), layer(stream);
  Arena arena(measure.peak());
  stream.arena = &arena, stream.hooks = {};
  prepare(stream), layer(stream);
  const double start = monotonic_seconds();
  int runs = 0;
  do layer(stream), ++runs;
  while (monotonic_seconds() - start < kSeconds);
  return 2.0 * kSize * kSize * kSize * runs / (monotonic_seconds() - start);
}

}  // namespace

double cpu_products_per_second(ThreadPool& pool, const Precision& precision, const Hooks& hooks) {
  const Stream stream{.pool = &pool, .precision = precision, .hooks = hooks};
  const Matrix x(DType::f32, {kSize, kSize}, 0.5f), weight(DType::f32, {kSize, kSize}, 0.5f),
      y(DType::f32, {kSize, kSize});
  if (precision.products != Products::int8) {
    const Matrix packed(DType::u8, {ops::packed_gemm_bytes(kSize, kSize, precision.compute)});
    return rate_of(
        stream, [&](Stream& s) { ops::pack_gemm_weight(weight.tensor, packed.tensor, s); },
        [&](Stream& s) {
          ops::gemm({.x = x.tensor, .weight = weight.tensor, .packed = packed.tensor, .y = y.tensor}, s);
        });
  }
  const Matrix codes(DType::i8, {kSize, kSize}), rows(DType::i8, {kSize, kSize}),
      scales(DType::f32, {kSize, 1}), row_scales(DType::f32, {kSize, 1}),
      packed(DType::u8, {ops::packed_scaled_gemm_bytes(kSize, kSize)});
  const auto round = [](const Matrix& from, const Matrix& scale, const Matrix& to, Stream& s) {
    ops::quantize({.x = from.tensor, .block = {1, 0}, .scale = scale.tensor, .q = to.tensor}, s);
  };
  return rate_of(
      stream,
      [&](Stream& s) {
        round(weight, scales, codes, s);
        ops::pack_scaled_gemm_weight(codes.tensor, packed.tensor, s);
      },
      [&](Stream& s) {  // as nn/weight_scaled does
        round(x, row_scales, rows, s);
        ops::scaled_gemm({.x = rows.tensor,
                          .x_scale = row_scales.tensor.view({kSize}),
                          .weight = codes.tensor,
                          .packed = packed.tensor,
                          .weight_scale = scales.tensor.view({kSize}),
                          .y = y.tensor},
                         s);
      });
}

}  // namespace tachy
