// Lesson 3: the sum of a vector, or: how threads add up together.
//
// A sum is a tree. Its wide part is free: each thread adds the values that it reads in registers. Where
// threads must exchange values, the means depends on their distance:
//
//   within a thread    several partial sums, so that one addition need not wait for the previous one
//   within a warp      shuffles: a lane reads another lane's register; five steps for 32 lanes, no memory,
//                      no barrier
//   within a block     each warp leaves one number in shared memory, and the first warp adds those
//   between blocks     one number per block in memory; a second, tiny launch adds them
//
// Atomic additions would save the second launch, but their order would depend on which thread comes first:
// the last bits would differ from run to run. Here the order follows from the length and the grid alone, so
// two runs agree to the bit, and the program checks that. (device::block_sum is the middle two steps;
// src/device/reduce.cuh.)
#include <cstring>

#include "device/reduce.cuh"
#include "gauge.cuh"

using namespace tachy;

constexpr int kThreads = 512, kPacks = 4;

// Block b adds packs of 16 bytes, loads kPacks of them ahead, and strides over the vector by the whole grid.
__global__ void __launch_bounds__(kThreads) sum_blocks(const float* x, float* partial, size_t count) {
  __shared__ float scratch[33];
  const size_t packs = count / 4, stride = static_cast<size_t>(gridDim.x) * kThreads * kPacks;
  float sum[kPacks] = {};
  for (size_t begin = static_cast<size_t>(blockIdx.x) * kThreads * kPacks + threadIdx.x; begin < packs;
       begin += stride) {
    device::Pack<float, 4> v[kPacks];
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      const size_t at = begin + static_cast<size_t>(j) * kThreads;
      if (at < packs)
        v[j] = device::load<float, 4>(x + at * 4);
      else
        v[j].set({0, 0, 0, 0});
    }
#pragma unroll
    for (int j = 0; j < kPacks; ++j) sum[j] += (v[j].get(0) + v[j].get(1)) + (v[j].get(2) + v[j].get(3));
  }
  float total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  if (blockIdx.x == 0 && threadIdx.x < count % 4) total += x[packs * 4 + threadIdx.x];
  total = device::block_sum(total, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads) sum_partials(const float* partial, float* out, int count) {
  __shared__ float scratch[33];
  float total = 0;
  for (int i = threadIdx.x; i < count; i += kThreads) total += partial[i];
  total = device::block_sum(total, scratch);
  if (threadIdx.x == 0) *out = total;
}

int blocks() {
  int multiprocessors = 0;
  gauge::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
               "multiprocessors");
  return multiprocessors * 4;
}

void launch(const float* x, float* partial, float* out, size_t count) {
  static const int grid = blocks();
  sum_blocks<<<grid, kThreads>>>(x, partial, count);
  sum_partials<<<1, kThreads>>>(partial, out, grid);
}

bool right(const char* what, size_t count) {
  const std::vector<float> x = gauge::random_values<float>(count, 7);
  const gauge::Array<float> on_x(x), partial(static_cast<size_t>(blocks())), first(1), second(1);
  launch(on_x.get(), partial.get(), first.get(), count);
  launch(on_x.get(), partial.get(), second.get(), count);
  double sum = 0, absolute = 0;
  for (const float v : x) sum += v, absolute += std::fabs(v);
  const float a = first.host()[0], b = second.host()[0];
  // Every partial sum on a value's path is rounded once. With random data few of the roundings have the same
  // sign.
  const double bound = 0x1p-24 * absolute, error = std::fabs(a - sum);
  const bool same = std::memcmp(&a, &b, 4) == 0, fine = error <= bound && same;
  std::printf("%-28s error %.2e, allowed %.2e, two runs %s: %s\n", what, error, bound,
              same ? "equal to the bit" : "DIFFER", fine ? "right" : "WRONG");
  return fine;
}

int main() {
  constexpr size_t kCount = size_t{1} << 27;
  bool fine = right("134,217,728 floats", kCount);
  fine &= right("1,000,003 floats", 1'000'003);
  fine &= right("3 floats", 3);

  const gauge::Array<float> x(gauge::random_values<float>(kCount, 8)), partial(static_cast<size_t>(blocks())),
      out(1);
  const double us = gauge::median_us([&] { launch(x.get(), partial.get(), out.get(), kCount); });
  // This only reads: memory need not switch between reading and writing, so it can exceed a copy's rate.
  gauge::report_bytes("both launches", us, 4.0 * kCount, gauge::copy_rate());
  return fine ? 0 : 1;
}
