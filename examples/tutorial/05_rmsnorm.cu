// Lesson 5: RMSNorm of rows, y = x / sqrt(mean(x²) + eps) · w, or: rows wider than a warp.
//
// A token of the 14B transformer has 5,120 channels, 10 KB in bf16. One warp could hold it, but 160 values
// per lane leave registers for only a few warps, and few warps keep few bytes on their way (lesson 1). So
// `width` threads share a row: a power of two of them, in whole warps, which exchange the sum through shared
// memory (device::group_sum). More threads per row mean fewer registers for each and more rows at once on a
// multiprocessor, but more warps wait at the barrier of each row.
//
// The weights, which all rows share, are float32 and read through the caches: after the first rows they cost
// no memory traffic. x, which only one row needs, bypasses them (device::load). The floor counts only x and
// y.
#include "device/reduce.cuh"
#include "gauge.cuh"

using namespace tachy;
using gauge::device_bf16;

constexpr int kThreads = 256, kPack = 8;

// kWidth threads for a row, Chunks packs of 8 values for each thread; kThreads / kWidth rows in a block.
template <int kWidth, int Chunks>
__global__ void __launch_bounds__(kThreads)
    rmsnorm(const device_bf16* x, const float* weight, device_bf16* y, int rows, int columns, float eps) {
  __shared__ float scratch[2 * kThreads / 32];
  const int lane = threadIdx.x % kWidth;
  const int row = blockIdx.x * (kThreads / kWidth) + threadIdx.x / kWidth;
  const bool mine = row < rows;  // no thread leaves: the barrier in group_sum counts all threads of the block
  x += static_cast<int64_t>(row) * columns, y += static_cast<int64_t>(row) * columns;

  device::Pack<device_bf16, kPack> h[Chunks];
#pragma unroll
  for (int j = 0; j < Chunks; ++j) {
    const int at = (j * kWidth + lane) * kPack;
    if (mine && at < columns) {
      h[j] = device::load<device_bf16, kPack>(x + at);
    } else {
#pragma unroll
      for (uint32_t& word : h[j].words) word = 0;
    }
  }

  float squares[1] = {0};
#pragma unroll
  for (int j = 0; j < Chunks; ++j)
#pragma unroll
    for (int i = 0; i < kPack; ++i) squares[0] = fmaf(h[j].get(i), h[j].get(i), squares[0]);
  device::group_sum(squares, kWidth, scratch, 0);
  const float factor = rsqrtf(squares[0] / static_cast<float>(columns) + eps);

#pragma unroll
  for (int j = 0; j < Chunks; ++j) {
    const int at = (j * kWidth + lane) * kPack;
    if (!mine || at >= columns) continue;
    float w[kPack], v[kPack];
    device::load_shared_row<kPack>(weight + at, w);
#pragma unroll
    for (int i = 0; i < kPack; ++i) v[i] = h[j].get(i) * factor * w[i];
    device::store(y + at, v);
  }
}

template <int kWidth, int Chunks>
void launch(const device_bf16* x, const float* weight, device_bf16* y, int rows, int columns) {
  constexpr int kRows = kThreads / kWidth;
  rmsnorm<kWidth, Chunks><<<(rows + kRows - 1) / kRows, kThreads>>>(x, weight, y, rows, columns, 1e-6f);
}

bool right(const char* what, int rows, int columns) {
  const size_t count = static_cast<size_t>(rows) * columns;
  const std::vector<device_bf16> x = gauge::random_values<device_bf16>(count, 11, 3);
  const std::vector<float> weight = gauge::random_values<float>(static_cast<size_t>(columns), 12, 2);
  const gauge::Array<device_bf16> on_x(x), on_y(count);
  const gauge::Array<float> on_weight(weight);
  launch<128, 5>(on_x.get(), on_weight.get(), on_y.get(), rows, columns);
  const std::vector<device_bf16> y = on_y.host();
  gauge::Error error;
  const int step = std::max(1, rows / 1000);
  for (int64_t i = 0; i < rows; ++i) {
    const device_bf16 *from = &x[i * columns], *got = &y[i * columns];
    double squares = 0;
    for (int j = 0; j < columns && i % step == 0; ++j) squares += std::pow(gauge::as_float(from[j]), 2);
    const double factor = 1 / std::sqrt(squares / columns + 1e-6);
    for (int j = 0; j < columns; ++j)
      if (i % step)
        error.written(gauge::as_float(got[j]));
      else
        error.add(gauge::as_float(got[j]), gauge::as_float(from[j]) * factor * weight[j]);
  }
  return error.within(what, 0.51, 8);
}

int main() {
  constexpr int kRows = 32'760, kColumns = 5'120;
  bool fine = right("32760 x 5120", kRows, kColumns);
  fine &= right("77 x 1000", 77, 1000);
  fine &= right("1 x 8", 1, 8);

  constexpr size_t kCount = size_t{kRows} * kColumns;
  const gauge::Array<device_bf16> x(gauge::random_values<device_bf16>(kCount, 13, 3)), y(kCount);
  const gauge::Array<float> weight(gauge::random_values<float>(kColumns, 14, 2));
  const double rate = gauge::copy_rate(), bytes = 4.0 * kCount;
  const auto time = [&](const char* what, auto launch_one) {
    const double us = gauge::median_us([&] { launch_one(x.get(), weight.get(), y.get(), kRows, kColumns); });
    gauge::report_bytes(what, us, bytes, rate);
  };
  time("32 threads a row", launch<32, 20>);
  time("64 threads a row", launch<64, 10>);
  time("256 threads a row", launch<256, 3>);
  time("128 threads a row", launch<128, 5>);
  return fine ? 0 : 1;
}
