// Times tiles of the convolution by mma.sync and compares their results with the generic kernel's.
//   nvcc -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -Isrc -Xptxas -v \
//        bench/lab/conv_tile_variants.cu -o conv_tile_variants
// Inputs are hashed numbers; outputs start as NaN.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "device/conv_halo_sm80.cuh"
#include "device/conv_tile_sm80.cuh"

using namespace tachy::device;
using T = __nv_bfloat16;

static bool once;  // with an argument, runs each kernel a single time, for a profiler

static void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  printf("cuda: %s\n", cudaGetErrorString(status));
  exit(1);
}
__global__ void fill(T* p, size_t n, uint32_t seed, float scale) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull, x ^= x >> 27, x *= 0x94d049bb133111ebull, x ^= x >> 31;
    p[i] = __float2bfloat16(scale * (static_cast<float>(uint32_t(x)) / 2147483648.0f - 1.0f));
  }
}
__global__ void difference(const T* a, const T* b, size_t n, float* worst) {
  float most = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    const float d = fabsf(float(a[i]) - float(b[i])) / (fabsf(float(b[i])) + 0.3f);
    most = d >= 0 ? fmaxf(most, d) : 1e30f;
  }
  atomicMax(reinterpret_cast<int*>(worst), __float_as_int(most));
}

struct Problem {
  int frames, height, width, ci, co, kernel_t = 3, kernel = 3;
  bool history = true, residual = true;
};
struct Data {
  Problem q;
  T *x, *cache, *w, *y, *want, *residual;
  float *bias, *worst;
  ConvTileParams p{};
  double flops;
};

static Data make(const Problem& q) {
  Data d{.q = q};
  const size_t pixels = size_t(q.height) * q.width, taps = size_t(q.kernel_t) * q.kernel * q.kernel;
  const int padded = (q.ci + 31) / 32 * 32;
  const size_t nx = q.frames * pixels * q.ci, ny = q.frames * pixels * q.co, nw = q.co * taps * padded;
  must(cudaMalloc(&d.x, nx * 2)), must(cudaMalloc(&d.cache, 2 * pixels * q.ci * 2)),
      must(cudaMalloc(&d.w, nw * 2));
  must(cudaMalloc(&d.y, ny * 2)), must(cudaMalloc(&d.want, ny * 2)), must(cudaMalloc(&d.residual, ny * 2));
  must(cudaMalloc(&d.bias, q.co * 4)), must(cudaMalloc(&d.worst, 4)), must(cudaMemset(d.bias, 0, q.co * 4));
  fill<<<1024, 256>>>(d.x, nx, 1, 1), fill<<<1024, 256>>>(d.cache, 2 * pixels * q.ci, 2, 1);
  fill<<<1024, 256>>>(d.w, nw, 3, 1.7f / std::sqrt(float(q.ci * taps))),
      fill<<<1024, 256>>>(d.residual, ny, 4, 1);
  ConvShape s{.in_height = q.height,
              .in_width = q.width,
              .ci = q.ci,
              .frames = q.frames,
              .height = q.height,
              .width = q.width,
              .co = q.co,
              .kernel_t = q.kernel_t,
              .kernel_h = q.kernel,
              .kernel_w = q.kernel,
              .stride = 1,
              .pad_top = q.kernel / 2,
              .pad_left = q.kernel / 2,
              .time_stride = 1,
              .front = q.kernel_t - 1,
              .history = q.history ? 2 : 0,
              .cache_frames = 2,
              .phases = 1,
              .y_frame = static_cast<long long>(pixels) * q.co,
              .y_row = static_cast<long long>(q.width) * q.co,
              .y_column = q.co,
              .y_phase_row = 0,
              .y_phase_column = 0,
              .bias = d.bias,
              .residual = q.residual ? d.residual : nullptr,
              .y = d.y};
  d.p.conv = {.s = s,
              .x = d.x,
              .cache = d.cache,
              .weights = d.w,
              .padded_ci = padded,
              .k = static_cast<int>(taps * padded)};
  d.p.positions = static_cast<int>(q.frames * pixels);
  d.flops = 2.0 * d.p.positions * q.co * q.ci * taps;
  return d;
}

template <class Launch>
static void timed(const char* name, Data& d, Launch&& launch, int occupancy, bool check) {
  const size_t ny = size_t(d.p.positions) * d.q.co;
  must(cudaMemset(d.y, 0xff, ny * 2)), must(cudaMemset(d.worst, 0, 4));
  launch();
  must(cudaGetLastError()), must(cudaDeviceSynchronize());
  float worst = 0;
  if (check) {
    difference<<<1024, 256>>>(d.y, d.want, ny, d.worst);
    must(cudaMemcpy(&worst, d.worst, 4, cudaMemcpyDeviceToHost));
  } else {
    must(cudaMemcpy(d.want, d.y, ny * 2, cudaMemcpyDeviceToDevice));
  }
  if (once) return;
  cudaEvent_t start, stop;
  cudaEventCreate(&start), cudaEventCreate(&stop);
  const int launches = std::clamp(static_cast<int>(3e11 / d.flops), 1, 50);
  std::vector<float> times;
  double spent = 0;
  while (times.size() < 5 || (spent < 80 && times.size() < 40)) {
    cudaEventRecord(start);
    for (int i = 0; i < launches; ++i) launch();
    cudaEventRecord(stop);
    must(cudaDeviceSynchronize());
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    times.push_back(ms / launches), spent += ms;
  }
  std::sort(times.begin(), times.end());
  const double ms = times[times.size() / 2];
  printf("%-24s %dx%dx%d %d->%d k%d%d: %8.3f ms %6.1f TFLOP/s, %d a SM, differs %.4f\n", name, d.q.frames,
         d.q.height, d.q.width, d.q.ci, d.q.co, d.q.kernel_t, d.q.kernel, ms, d.flops / ms * 1e-9, occupancy,
         worst);
  fflush(stdout);
}

template <class S>
static void variant(const char* name, Data& d) {
  if (d.p.conv.padded_ci % (S::kDepth / 2)) return;
  auto kernel = conv_tile_sm80<S, T>;
  must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes));
  int occupancy = 0;
  must(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&occupancy, kernel, S::kThreads, S::kSharedBytes));
  d.p.tiles_m = (d.p.positions + S::kRows - 1) / S::kRows,
  d.p.tiles_n = (d.q.co + S::kColumns - 1) / S::kColumns;
  const int grid = std::min(d.p.tiles_m * d.p.tiles_n, 132 * occupancy);
  timed(
      name, d, [&] { kernel<<<grid, S::kThreads, S::kSharedBytes>>>(d.p); }, occupancy, true);
}

template <class S>
static void halo(const char* name, Data& d) {
  if (d.q.ci % 32 || d.q.kernel != 3) return;
  auto kernel = conv_halo_sm80<S, T>;
  must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes));
  int occupancy = 0;
  must(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&occupancy, kernel, S::kThreads, S::kSharedBytes));
  ConvHaloParams p{.conv = d.p.conv,
                   .tiles_h = (d.q.height + S::kRows - 1) / S::kRows,
                   .tiles_w = (d.q.width + 15) / 16,
                   .tiles_n = (d.q.co + S::kColumns - 1) / S::kColumns};
  p.work = p.tiles_h * p.tiles_w * p.tiles_n * d.q.frames;
  const int grid = std::min(p.work, 132 * occupancy);
  timed(
      name, d, [&] { kernel<<<grid, S::kThreads, S::kSharedBytes>>>(p); }, occupancy, true);
}

// The same in int8, with any bytes as codes: it is timed and not compared.
template <int kRows, int kBytes>
static void codes(const char* name, Data d) {
  using S = HaloShape<tile::Int8, kRows, 96, 48, 1, kBytes>;
  if (d.q.ci % kBytes || d.q.kernel != 3) return;
  auto kernel = conv_halo_sm80<S, T>;
  must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes));
  ConvHaloParams p{.conv = d.p.conv,
                   .tiles_h = (d.q.height + S::kRows - 1) / S::kRows,
                   .tiles_w = (d.q.width + 15) / 16,
                   .tiles_n = (d.q.co + S::kColumns - 1) / S::kColumns,
                   .scale = d.bias};
  p.work = p.tiles_h * p.tiles_w * p.tiles_n * d.q.frames;
  timed(
      name, d, [&] { kernel<<<std::min(p.work, 132), S::kThreads, S::kSharedBytes>>>(p); }, 1, false);
}

static void all(const Problem& q) {
  using K = tile::Halves<T>;
  Data d = make(q);
  const dim3 grid((d.p.positions + kConv80M - 1) / kConv80M, (q.co + kConv80N - 1) / kConv80N);
  timed(
      "generic", d, [&] { conv_sm80<T, false><<<grid, 256>>>(d.p.conv); }, 0, false);
  variant<tile::Shape<K, 256, 96, 64, 48, 3, 3, 1>>("256x96 w64x48 d3 s3", d);
  halo<HaloShape<K, 24, 96, 48, 1>>("halo 24x96 w48", d);
  halo<HaloShape<K, 12, 96, 48, 2>>("halo 12x96 w48 x2", d);
  halo<HaloShape<K, 12, 192, 48, 1>>("halo 12x192 w48", d);
  halo<HaloShape<K, 16, 96, 48, 1>>("halo 16x96 w48", d);
  halo<HaloShape<K, 8, 96, 48, 3>>("halo 8x96 w48 x3", d);
  codes<24, 64>("int8 24x96, 64 a unit", d);
  codes<24, 32>("int8 24x96, 32 a unit", d);
  for (void* p :
       {(void*)d.x, (void*)d.cache, (void*)d.w, (void*)d.y, (void*)d.want, (void*)d.residual, (void*)d.bias})
    cudaFree(p);
}

int main(int argc, char**) {
  once = argc > 1;
  if (once) return all({4, 240, 416, 192, 192}), all({4, 480, 832, 96, 96}), 0;
  cudaDeviceProp prop;
  must(cudaGetDeviceProperties(&prop, 0));
  printf("%s, %d SMs\n", prop.name, prop.multiProcessorCount);
  all({3, 13, 17, 96, 72});
  all({2, 29, 37, 64, 200, 3, 3, false, true});
  all({2, 21, 30, 64, 200, 3, 3, false, false});
  all({4, 480, 832, 96, 96});
  all({4, 240, 416, 192, 192});
  all({4, 120, 208, 384, 384});
  all({2, 60, 104, 384, 384});
  all({4, 480, 832, 192, 96});
}
