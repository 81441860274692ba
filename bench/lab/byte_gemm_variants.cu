// Times tiles of scaled_gemm's mma.sync kernel and checks sampled values against sums in 64 bits on the host.
//   nvcc -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -Isrc -Xptxas -v \
//        bench/lab/byte_gemm_variants.cu -o byte_gemm_variants
//   ./byte_gemm_variants [seconds of warm-up]
// Codes are hashed and use their whole range; outputs start as NaN.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ops/scaled_gemm/byte_gemm.cuh"

using namespace tachy;
using namespace tachy::ops::byte_gemm;
using T = __nv_bfloat16;

static void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  printf("cuda: %s\n", cudaGetErrorString(status));
  exit(1);
}

__device__ __host__ inline uint32_t hashed(uint64_t i, uint32_t seed) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;
  x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull, x ^= x >> 27, x *= 0x94d049bb133111ebull, x ^= x >> 31;
  return static_cast<uint32_t>(x);
}
// For int8 the codes are a bell of width 40, like a row that is rounded by its largest value; for e4m3 none
// is NaN.
__device__ __host__ inline uint8_t code(uint64_t i, uint32_t seed, bool floats) {
  const uint32_t h = hashed(i, seed);
  if (floats) {
    const uint32_t magnitude = 0x20 + (h >> 8) % 0x58;
    return static_cast<uint8_t>(magnitude | (h & 0x80));
  }
  const int bell = int(h & 63) + int(h >> 6 & 63) + int(h >> 12 & 63) + int(h >> 18 & 63) - 126;
  return static_cast<uint8_t>(static_cast<int8_t>(bell));
}
__global__ void fill(uint8_t* p, size_t n, uint32_t seed, bool floats) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    p[i] = code(i, seed, floats);
}
static float value(uint8_t c, bool floats) {
  if (!floats) return static_cast<int8_t>(c);
  const int e = c >> 3 & 15, m = c & 7;
  const float v = e ? std::ldexp(1.0f + m / 8.0f, e - 7) : std::ldexp(m / 8.0f, -6);
  return c & 0x80 ? -v : v;
}

struct Sizes {
  int m, n, k;
};

struct Data {
  Sizes s;
  bool floats;
  uint8_t *x, *w;
  float *x_scale, *w_scale;
  T *bias, *y;
  Params p{};
};

static Data make(Sizes s, bool floats) {
  Data d{.s = s, .floats = floats};
  must(cudaMalloc(&d.x, size_t(s.m) * s.k)), must(cudaMalloc(&d.w, size_t(s.n) * s.k));
  must(cudaMalloc(&d.x_scale, s.m * 4)), must(cudaMalloc(&d.w_scale, s.n * 4));
  must(cudaMalloc(&d.bias, s.n * 2)), must(cudaMalloc(&d.y, size_t(s.m) * s.n * 2));
  fill<<<1024, 256>>>(d.x, size_t(s.m) * s.k, 1, floats),
      fill<<<1024, 256>>>(d.w, size_t(s.n) * s.k, 2, floats);
  std::vector<float> xs(s.m), ws(s.n);
  std::vector<T> bias(s.n);
  for (int i = 0; i < s.m; ++i) xs[i] = 0.01f + hashed(i, 3) * 1e-12f;
  for (int i = 0; i < s.n; ++i) ws[i] = 0.01f + hashed(i, 4) * 1e-12f, bias[i] = T(hashed(i, 5) * 1e-9f);
  must(cudaMemcpy(d.x_scale, xs.data(), s.m * 4, cudaMemcpyHostToDevice));
  must(cudaMemcpy(d.w_scale, ws.data(), s.n * 4, cudaMemcpyHostToDevice));
  must(cudaMemcpy(d.bias, bias.data(), s.n * 2, cudaMemcpyHostToDevice));
  d.p = {.x = d.x,
         .w = d.w,
         .x_scale = d.x_scale,
         .w_scale = d.w_scale,
         .bias = d.bias,
         .addend = nullptr,
         .y = d.y,
         .x_row = s.k,
         .addend_row = 0,
         .y_row = s.n,
         .m = s.m,
         .n = s.n,
         .k = s.k,
         .tiles_m = 0,
         .tiles_n = 0,
         .group = 8,
         .packs = s.n % 8 == 0,
         .act = device::Act::none};
  return d;
}
static void drop(Data& d) {
  for (void* p : {(void*)d.x, (void*)d.w, (void*)d.x_scale, (void*)d.w_scale, (void*)d.bias, (void*)d.y})
    cudaFree(p);
}

// The largest distance of sampled values from the definition, divided by half a unit of bf16 (for int8 at
// most 1).
static double verify(const Data& d) {
  std::vector<T> y(size_t(d.s.m) * d.s.n);
  must(cudaMemcpy(y.data(), d.y, y.size() * 2, cudaMemcpyDeviceToHost));
  double worst = 0, square = 0, power = 0;
  for (int sample = 0; sample < 3000; ++sample) {
    const int row = sample < 40 ? d.s.m - 1 - sample % std::min(d.s.m, 40) : int(hashed(sample, 7) % d.s.m);
    const int column =
        sample % 5 == 0 ? d.s.n - 1 - sample / 5 % std::min(d.s.n, 70) : int(hashed(sample, 8) % d.s.n);
    double sum = 0;
    for (int k = 0; k < d.s.k; ++k)
      sum += double(value(code(size_t(row) * d.s.k + k, 1, d.floats), d.floats)) *
             value(code(size_t(column) * d.s.k + k, 2, d.floats), d.floats);
    const float xs = 0.01f + hashed(row, 3) * 1e-12f, ws = 0.01f + hashed(column, 4) * 1e-12f;
    const double want = sum * xs * ws + double(float(T(hashed(column, 5) * 1e-9f)));
    const double got = double(float(y[size_t(row) * d.s.n + column])),
                 unit = std::ldexp(1.0, std::ilogb(want) - 8);
    const double error = std::abs(got - want);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error / unit);
    square += error * error, power += want * want;
  }
  for (size_t i = 0; i < y.size(); ++i)
    if (std::isnan(float(y[i]))) return INFINITY;
  return d.floats ? std::sqrt(square / power) : worst;
}

template <class S>
static void variant(const char* name, Data& d, int group, bool check) {
  auto kernel = byte_gemm_kernel<S, T>;
  static const int blocks = [&] {
    must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kSharedBytes));
    int count = 0;
    must(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&count, kernel, S::kThreads, S::kSharedBytes));
    return count;
  }();
  d.p.tiles_m = (d.s.m + S::kRows - 1) / S::kRows, d.p.tiles_n = (d.s.n + S::kColumns - 1) / S::kColumns;
  d.p.group = group;
  const int grid = std::min(d.p.tiles_m * d.p.tiles_n, 132 * blocks);
  must(cudaMemset(d.y, 0xff, size_t(d.s.m) * d.s.n * 2));
  cudaEvent_t start, stop;
  cudaEventCreate(&start), cudaEventCreate(&stop);
  kernel<<<grid, S::kThreads, S::kSharedBytes>>>(d.p);
  must(cudaGetLastError()), must(cudaDeviceSynchronize());
  const double error = check ? verify(d) : 0;
  std::vector<float> times;
  double spent = 0;
  // Makes many launches in a row: a single one would count the host's time to launch it.
  const int launches = std::max<int>(1, static_cast<int>(4e11 / (2.0 * d.s.m * d.s.n * d.s.k)));
  while (times.size() < 5 || (spent < 100 && times.size() < 40)) {
    cudaEventRecord(start);
    for (int i = 0; i < std::min(launches, 50); ++i) kernel<<<grid, S::kThreads, S::kSharedBytes>>>(d.p);
    cudaEventRecord(stop);
    must(cudaDeviceSynchronize());
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    times.push_back(ms / std::min(launches, 50)), spent += ms;
  }
  std::sort(times.begin(), times.end());
  const double ms = times[times.size() / 2];
  printf("%-22s group %2d %6dx%5dx%5d %s: %8.3f ms %7.1f T/s, %d a SM, error %.2e\n", name, group, d.s.m,
         d.s.n, d.s.k, d.floats ? "e4m3" : "int8", ms, 2e-9 * d.s.m * d.s.n * d.s.k / ms, blocks, error);
  fflush(stdout);
}

template <class Kind>
static void each(Sizes s, bool check, int group) {
  Data d = make(s, false);
  variant<Shape<Kind, 128, 256, 64, 64, 2, 3, 1>>("128x256 d128 s3", d, group, check);
  variant<Shape<Kind, 128, 256, 64, 64, 1, 3, 1>>("128x256 d64 s3", d, group, check);
  variant<Shape<Kind, 128, 128, 64, 64, 2, 3, 2>>("128x128 d128 s3 x2", d, group, check);
  variant<Shape<Kind, 128, 128, 64, 64, 1, 4, 2>>("128x128 d64 s4 x2", d, group, check);
  variant<Shape<Kind, 64, 128, 32, 64, 1, 3, 3>>("64x128 d64 s3 x3", d, group, check);
  variant<Shape<Kind, 128, 192, 64, 48, 2, 3, 1>>("128x192 d128 s3", d, group, check);
  variant<Shape<Kind, 128, 192, 64, 48, 1, 4, 1>>("128x192 d64 s4", d, group, check);
  drop(d);
}

int main() {
  cudaDeviceProp prop;
  must(cudaGetDeviceProperties(&prop, 0));
  printf("%s, %d SMs\n", prop.name, prop.multiProcessorCount);
  each<Int8>({130, 77, 1040}, true, 8);
  each<Int8>({300, 520, 208}, true, 8);
  each<Int8>({300, 520, 2080}, true, 8);
  each<Int8>({300, 512, 64}, true, 8);
  each<Int8>({32760, 13824, 5120}, false, 8);
  each<Int8>({32760, 5120, 5120}, false, 8);
  each<Int8>({32760, 5120, 13824}, false, 8);
  each<Int8>({32760, 4608, 1536}, false, 8);
  each<Int8>({32760, 1536, 1536}, false, 8);
  each<Int8>({32760, 8960, 1536}, false, 8);
  each<Int8>({32760, 1536, 8960}, false, 8);
  each<Int8>({1560, 1536, 1536}, true, 13);
  each<Int8>({1560, 8960, 1536}, false, 13);
  each<Int8>({1560, 1536, 8960}, false, 13);
}
