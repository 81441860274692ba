// Lesson 4: softmax of rows, y = exp(x - max x) / Σ exp(x - max x), or: one pass over memory.
//
// The formula goes over a row three times: maximum, sum, quotient. Written as three loops over memory it
// costs four passes (three reads, one write). But a row of 2,048 bf16 values is 4 KB, and a warp has 32 KB of
// registers: it reads the row once, keeps it as it lies in memory (16-bit values in packs of eight, widened
// when used) and makes all three passes over registers. Since one warp has the whole row, shuffles exchange
// the values, and there is no barrier.
//
// Two details matter for the numbers. The maximum is subtracted before exp, so that nothing overflows. And
// exp is computed as a power of two: exp(x - m) = 2^(x·log2 e - m·log2 e), one FMA and one special
// instruction.
#include "device/reduce.cuh"
#include "gauge.cuh"

using namespace tachy;
using gauge::device_bf16;

constexpr int kWarps = 4, kPack = 8;

// One warp handles a row of at most 32 · 8 · Chunks values, a multiple of 8. Places after the end count as
// -infinity.
template <int Chunks>
__global__ void __launch_bounds__(kWarps * 32)
    softmax(const device_bf16* x, device_bf16* y, int rows, int columns) {
  const int row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;  // a whole warp leaves, so no shuffle misses a lane
  x += static_cast<int64_t>(row) * columns, y += static_cast<int64_t>(row) * columns;

  device::Pack<device_bf16, kPack> h[Chunks];
#pragma unroll
  for (int j = 0; j < Chunks; ++j) {
    const int at = (j * 32 + lane) * kPack;
    if (at < columns) {
      h[j] = device::load<device_bf16, kPack>(x + at);
    } else {
#pragma unroll
      for (uint32_t& word : h[j].words) word = 0xff80ff80;  // two bf16 of -infinity
    }
  }

  float high = -INFINITY;
#pragma unroll
  for (int j = 0; j < Chunks; ++j)
#pragma unroll
    for (int i = 0; i < kPack; ++i) high = fmaxf(high, h[j].get(i));
  constexpr float kLog2e = 1.4426950408889634f;
  const float minus = -device::warp_max(high) * kLog2e;

  float sum = 0;
#pragma unroll
  for (int j = 0; j < Chunks; ++j)
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum += device::exp2_approx(fmaf(h[j].get(i), kLog2e, minus));
  // 1 / sum goes into the exponent: the third pass needs no multiplication.
  const float shift = minus - log2f(device::warp_sum(sum));

#pragma unroll
  for (int j = 0; j < Chunks; ++j) {
    const int at = (j * 32 + lane) * kPack;
    if (at >= columns) continue;
    float v[kPack];
#pragma unroll
    for (int i = 0; i < kPack; ++i) v[i] = device::exp2_approx(fmaf(h[j].get(i), kLog2e, shift));
    device::store(y + at, v);
  }
}

void launch(const device_bf16* x, device_bf16* y, int rows, int columns) {
  softmax<8><<<(rows + kWarps - 1) / kWarps, kWarps * 32>>>(x, y, rows, columns);
}

bool right(const char* what, int rows, int columns) {
  const size_t count = static_cast<size_t>(rows) * columns;
  const std::vector<device_bf16> x = gauge::random_values<device_bf16>(count, 9, 10);
  const gauge::Array<device_bf16> on_x(x), on_y(count);
  launch(on_x.get(), on_y.get(), rows, columns);
  const std::vector<device_bf16> y = on_y.host();
  gauge::Error error;
  // Every row must be written, every step-th is also computed again.
  const int step = std::max(1, rows / 1000);
  for (int64_t i = 0; i < rows; ++i) {
    const device_bf16 *from = &x[i * columns], *got = &y[i * columns];
    if (i % step) {
      for (int j = 0; j < columns; ++j) error.written(gauge::as_float(got[j]));
      continue;
    }
    double high = -INFINITY, sum = 0;
    for (int j = 0; j < columns; ++j) high = std::max<double>(high, gauge::as_float(from[j]));
    for (int j = 0; j < columns; ++j) sum += std::exp(gauge::as_float(from[j]) - high);
    for (int j = 0; j < columns; ++j)
      error.add(gauge::as_float(got[j]), std::exp(gauge::as_float(from[j]) - high) / sum);
  }
  return error.within(what, 0.51, 8);  // one rounding to bf16, plus float32's errors
}

int main() {
  constexpr int kRows = 65'536, kColumns = 2'048;
  bool fine = right("65536 x 2048", kRows, kColumns);
  fine &= right("77 x 1000", 77, 1000);
  fine &= right("5 x 8", 5, 8);

  constexpr size_t kCount = size_t{kRows} * kColumns;
  const gauge::Array<device_bf16> x(gauge::random_values<device_bf16>(kCount, 10, 10)), y(kCount);
  const double us = gauge::median_us([&] { launch(x.get(), y.get(), kRows, kColumns); });
  gauge::report_bytes("a warp a row", us, 4.0 * kCount, gauge::copy_rate());
  return fine ? 0 : 1;
}
