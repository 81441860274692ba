#include "session/product_rate.h"

#include <algorithm>
#include <utility>

#include "ops/gemm/gemm.h"
#include "ops/quantize/quantize.h"
#include "ops/scaled_gemm/scaled_gemm.h"
#include "session/stage_clock.h"

namespace tachy {
namespace {

constexpr int64_t kSize = 512, kFewRows = 16;
constexpr double kSeconds = 0.03;

struct Matrix {
  Matrix(DType dtype, std::initializer_list<int64_t> dims, float value = 0)
      : data(static_cast<size_t>(Tensor(nullptr, dtype, dims).bytes())), tensor(data.tensor(dtype, dims)) {
    if (dtype == DType::f32) std::fill_n(tensor.as<float>(), tensor.numel(), value);
  }

  Buffer data;
  Tensor tensor;
};

// Repeats `layer(stream, rows)` after a measure run of both, which finds their scratch. The first calls have
// few rows: if they already take as long as all of this may (an emulated CPU), they are the measurement.
template <class Prepare, class Layer>
double rate_of(Stream stream, Prepare&& prepare, Layer&& layer) {
  Arena measure;
  stream.arena = &measure;
  prepare(stream), layer(stream, kSize);
  Arena arena(measure.peak());
  stream.arena = &arena, stream.hooks = {};
  prepare(stream), layer(stream, kFewRows);
  const auto rate = [&](int64_t rows, double least) {
    const double start = monotonic_seconds();
    double seconds = 0;
    int64_t runs = 0;
    do layer(stream, rows), ++runs;
    while ((seconds = monotonic_seconds() - start) < least);
    return std::pair(2.0 * static_cast<double>(rows * kSize * kSize * runs) / seconds, seconds);
  };
  if (const auto [few, seconds] = rate(kFewRows, 0); seconds >= kSeconds) return few;
  layer(stream, kSize);
  return rate(kSize, kSeconds).first;
}

}  // namespace

double cpu_products_per_second(ThreadPool& pool, const Precision& precision, const Hooks& hooks) {
  const auto first = [](const Matrix& m, int64_t rows) { return m.tensor.slice(0, 0, rows); };
  const Stream stream{.pool = &pool, .precision = precision, .hooks = hooks};
  const Matrix x(DType::f32, {kSize, kSize}, 0.5f), weight(DType::f32, {kSize, kSize}, 0.5f),
      y(DType::f32, {kSize, kSize});
  if (precision.products != Products::int8) {
    const Matrix packed(DType::u8, {ops::packed_gemm_bytes(kSize, kSize, precision.compute)});
    return rate_of(
        stream, [&](Stream& s) { ops::pack_gemm_weight(weight.tensor, packed.tensor, s); },
        [&](Stream& s, int64_t rows) {
          ops::gemm(
              {.x = first(x, rows), .weight = weight.tensor, .packed = packed.tensor, .y = first(y, rows)},
              s);
        });
  }
  const Matrix codes(DType::i8, {kSize, kSize}), rows(DType::i8, {kSize, kSize}),
      scales(DType::f32, {kSize, 1}), row_scales(DType::f32, {kSize, 1}),
      packed(DType::u8, {ops::packed_scaled_gemm_bytes(kSize, kSize)});
  const auto round = [&](const Matrix& from, const Matrix& scale, const Matrix& to, int64_t count,
                         Stream& s) {
    ops::quantize(
        {.x = first(from, count), .block = {1, 0}, .scale = first(scale, count), .q = first(to, count)}, s);
  };
  return rate_of(
      stream,
      [&](Stream& s) {
        round(weight, scales, codes, kSize, s);
        ops::pack_scaled_gemm_weight(codes.tensor, packed.tensor, s);
      },
      [&](Stream& s, int64_t count) {  // like nn/weight_scaled
        round(x, row_scales, rows, count, s);
        ops::scaled_gemm({.x = first(rows, count),
                          .x_scale = first(row_scales, count).view({count}),
                          .weight = codes.tensor,
                          .packed = packed.tensor,
                          .weight_scale = scales.tensor.view({kSize}),
                          .y = first(y, count)},
                         s);
      });
}

}  // namespace tachy
