// Shared by the lessons on the host: random data, outputs poisoned before a run, timing, and the GPU's
// limits, measured in the same process: bytes copied per second, and products of the tensor cores per second.
//
// Nothing is measured on zeros (a GPU draws less power and clocks higher on them), and every array is several
// times larger than the second-level cache, so that each launch finds its inputs cold.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "device/mma_sm80.cuh"
#include "device/vec.cuh"

namespace gauge {

using device_bf16 = tachy::device::bf16;

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

// Uniform in [-1, 1) and a function of the index: any value can be made again without keeping the array.
inline float random_value(uint64_t index, uint64_t seed) {
  uint64_t z = (index + seed * 0x100000001b3u) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9u;
  return static_cast<float>(static_cast<int32_t>(z >> 32)) * 0x1p-31f;
}

inline float as_float(float v) { return v; }
inline float as_float(device_bf16 v) { return __bfloat162float(v); }

template <class T>
std::vector<T> random_values(size_t count, uint64_t seed, float scale = 1) {
  std::vector<T> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = T(scale * random_value(i, seed));
  return out;
}

// Memory of the GPU. A new array holds 0xff bytes, which are NaN in every type, so that values that a kernel
// forgets to write are noticed.
template <class T>
class Array {
 public:
  explicit Array(size_t count) : count_(count) {
    check(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
    check(cudaMemset(data_, 0xff, count * sizeof(T)), "cudaMemset");
  }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    check(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* get() const { return data_; }
  std::vector<T> host() const {
    std::vector<T> out(count_);
    check(cudaGetLastError(), "launch");
    check(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "kernel");
    return out;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

// The median over 21 launches, each between two events, after three that are not counted.
template <class Launch>
double median_us(const Launch& launch) {
  constexpr int kRuns = 21;
  cudaEvent_t events[kRuns + 1];
  for (auto& event : events) check(cudaEventCreate(&event), "cudaEventCreate");
  for (int i = 0; i < 3; ++i) launch();
  check(cudaEventRecord(events[0]), "cudaEventRecord");
  for (int i = 0; i < kRuns; ++i) launch(), check(cudaEventRecord(events[i + 1]), "cudaEventRecord");
  check(cudaGetLastError(), "launch");
  check(cudaDeviceSynchronize(), "kernel");
  std::vector<float> ms(kRuns);
  for (int i = 0; i < kRuns; ++i) check(cudaEventElapsedTime(&ms[i], events[i], events[i + 1]), "elapsed");
  for (auto& event : events) cudaEventDestroy(event);
  std::nth_element(ms.begin(), ms.begin() + kRuns / 2, ms.end());
  return ms[kRuns / 2] * 1e3;
}

// Bytes read and written per second by the best copy that we have: the driver's, or one with 16 bytes per
// thread.
__global__ void copy_kernel(const float* x, float* y) {
  const size_t at = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  tachy::device::store(y + at, tachy::device::load<float, 4>(x + at));
}
inline double copy_rate() {
  constexpr size_t kCount = size_t{1} << 27;
  const Array<float> x(random_values<float>(kCount, 1)), y(kCount);
  const double ours = median_us([&] { copy_kernel<<<kCount / 4 / 512, 512>>>(x.get(), y.get()); });
  const double driver =
      median_us([&] { cudaMemcpyAsync(y.get(), x.get(), kCount * 4, cudaMemcpyDeviceToDevice); });
  return 2.0 * kCount * 4 / (std::min(ours, driver) * 1e-6);
}

// Flops per second of mma.sync with all operands in registers: no kernel built on it can be faster.
__global__ void __launch_bounds__(256) mma_rate_kernel(float* out, int steps) {
  float c[16][4] = {};
  uint32_t a[2][4], b[8];
  const auto pair = [&](int i) {
    const float v = 0.001f * static_cast<float>((threadIdx.x * 37 + i * 11) % 199) - 0.1f;
    return tachy::device::pack_pair<device_bf16>(v, 0.05f - v);
  };
  for (int i = 0; i < 8; ++i) a[i / 4][i % 4] = pair(i), b[i] = pair(i + 8);
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int i = 0; i < 16; ++i)
      tachy::device::mma<device_bf16>(c[i], a[i % 2], b[i / 4 * 2], b[i / 4 * 2 + 1]);
  float sum = 0;
  for (int i = 0; i < 16; ++i) sum += c[i][0] + c[i][1] + c[i][2] + c[i][3];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
inline double mma_rate() {
  int multiprocessors = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
        "cudaDeviceGetAttribute");
  constexpr int kSteps = 2000;
  const Array<float> out(static_cast<size_t>(multiprocessors) * 256);
  const double us = median_us([&] { mma_rate_kernel<<<multiprocessors, 256>>>(out.get(), kSteps); });
  return multiprocessors * 8.0 * kSteps * 16 * (16 * 8 * 16 * 2) / (us * 1e-6);
}

// The largest difference from a float64 reference, and the largest reference value; a NaN counts as
// infinitely wrong.
struct Error {
  double max_error = 0, max_value = 0;
  void add(double got, double expected) {
    const double error = std::fabs(got - expected);
    max_error = std::isnan(error) ? INFINITY : std::max(max_error, error);
    max_value = std::max(max_value, std::fabs(expected));
  }
  void written(double got) {  // for values that are not compared one by one
    if (!std::isfinite(got)) max_error = INFINITY;
  }
  // Says whether the error is within `units` of the last place that a value with `bits` significant bits has
  // at the largest reference value.
  bool within(const char* what, double units, int bits) const {
    const double bound = units * std::exp2(std::floor(std::log2(max_value)) - (bits - 1));
    const bool right = max_error <= bound;
    std::printf("%-28s max error %.2e, allowed %.2e: %s\n", what, max_error, bound,
                right ? "right" : "WRONG");
    return right;
  }
};

inline void report_bytes(const char* what, double us, double bytes, double rate) {
  const double floor = bytes / rate * 1e6;
  std::printf("%-28s %8.1f us; floor %.1f us (%.0f MB at a copy's %.2f TB/s): %.0f %%\n", what, us, floor,
              bytes * 1e-6, rate * 1e-12, 100 * floor / us);
}
inline void report_flops(const char* what, double us, double flops, double rate) {
  const double floor = flops / rate * 1e6;
  std::printf(
      "%-28s %8.1f us, %.0f TFLOP/s; floor %.1f us (%.0f GFLOP at mma.sync's %.0f TFLOP/s): %.0f %%\n", what,
      us, flops / us * 1e-6, floor, flops * 1e-9, rate * 1e-12, 100 * floor / us);
}

inline int shared_bytes_limit() {
  int bytes = 0;
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0), "cudaDeviceGetAttribute");
  return bytes;
}
inline bool has_bf16_tensor_cores() {
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "cudaDeviceGetAttribute");
  return major >= 8;
}

}  // namespace gauge
