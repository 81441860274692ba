// Times tile variants of the sm_80 flash attention and checks sampled rows against a float64 softmax on the
// host.
//   nvcc -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -Isrc \
//        bench/lab/flash_variants.cu -o flash_variants
// Inputs are hashed normal numbers in [B, L, 3, H, D] (self) or in separate buffers (cross); the output
// starts as NaN.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ops/attention/flash_sm80.cuh"

using namespace tachy;
using namespace tachy::ops::flash;
using T = __nv_bfloat16;

static void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  printf("cuda: %s\n", cudaGetErrorString(status));
  exit(1);
}

__global__ void fill(T* p, size_t n, uint32_t seed, float scale) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull, x ^= x >> 27, x *= 0x94d049bb133111ebull, x ^= x >> 31;
    const float u = (uint32_t(x) + 1.0f) / 4294967808.0f, w = uint32_t(x >> 32) / 4294967296.0f;
    p[i] = __float2bfloat16(scale * sqrtf(-2 * logf(u)) * cospif(2 * w));
  }
}

struct Shape {
  int b, lq, lk, h, d;
  bool causal;
};

struct Data {
  T *q, *k, *v, *out;
  float* lse;
  Params p{};
};

Data make(const Shape& s) {
  Data x;
  const size_t nq = size_t(s.b) * s.lq * s.h * s.d, nk = size_t(s.b) * s.lk * s.h * s.d;
  must(cudaMalloc(&x.q, nq * 2)), must(cudaMalloc(&x.k, nk * 2)), must(cudaMalloc(&x.v, nk * 2));
  must(cudaMalloc(&x.out, nq * 2)), must(cudaMalloc(&x.lse, size_t(s.b) * s.h * s.lq * 4));
  fill<<<1024, 256>>>(x.q, nq, 1, 1.5f), fill<<<1024, 256>>>(x.k, nk, 2, 1.0f),
      fill<<<1024, 256>>>(x.v, nk, 3, 1.0f);
  must(cudaMemset(x.out, 0xff, nq * 2));
  Params& p = x.p;
  p.q = x.q, p.k = x.k, p.v = x.v, p.out = x.out, p.lse = x.lse;
  const int64_t row = int64_t(s.h) * s.d;
  p.qs = p.os = {s.lq * row, row, s.d}, p.ks = p.vs = {s.lk * row, row, s.d};
  p.lse_batch = int64_t(s.h) * s.lq, p.lse_head = s.lq;
  p.lq = s.lq, p.lk = s.lk, p.d = s.d, p.offset = s.lk - s.lq, p.causal = s.causal;
  p.scale = 1.0f / std::sqrt(float(s.d));
  return x;
}

void free_data(Data& x) { cudaFree(x.q), cudaFree(x.k), cudaFree(x.v), cudaFree(x.out), cudaFree(x.lse); }

// Largest and RMS error of sampled (row, head) pairs, relative to the largest |reference|, and those of lse.
void verify(const Shape& s, const Data& x) {
  double worst = 0, square = 0, highest = 0, worst_lse = 0;
  size_t count = 0;
  const size_t row = size_t(s.h) * s.d;
  std::vector<T> k(size_t(s.lk) * row), v(k.size()), q(row), out(row);
  for (int sample = 0; sample < 5; ++sample) {
    const int b = sample % s.b, i = sample == 0 ? 0 : sample == 1 ? s.lq - 1 : (sample * 7919) % s.lq;
    must(cudaMemcpy(k.data(), x.k + size_t(b) * s.lk * row, k.size() * 2, cudaMemcpyDeviceToHost));
    must(cudaMemcpy(v.data(), x.v + size_t(b) * s.lk * row, v.size() * 2, cudaMemcpyDeviceToHost));
    must(cudaMemcpy(q.data(), x.q + (size_t(b) * s.lq + i) * row, row * 2, cudaMemcpyDeviceToHost));
    must(cudaMemcpy(out.data(), x.out + (size_t(b) * s.lq + i) * row, row * 2, cudaMemcpyDeviceToHost));
    for (int h = 0; h < s.h; h += std::max(1, s.h / 2)) {
      const int seen = s.causal ? std::clamp(i + x.p.offset + 1, 0, s.lk) : s.lk;
      std::vector<double> score(seen), sum(s.d);
      double top = -INFINITY, total = 0;
      for (int j = 0; j < seen; ++j) {
        double dot = 0;
        for (int c = 0; c < s.d; ++c) dot += double(float(q[h * s.d + c])) * float(k[j * row + h * s.d + c]);
        top = std::max(top, score[j] = dot * x.p.scale);
      }
      for (int j = 0; j < seen; ++j) {
        const double w = std::exp(score[j] - top);
        total += w;
        for (int c = 0; c < s.d; ++c) sum[c] += w * float(v[j * row + h * s.d + c]);
      }
      float lse;
      must(cudaMemcpy(&lse, x.lse + (size_t(b) * s.h + h) * s.lq + i, 4, cudaMemcpyDeviceToHost));
      worst_lse = std::max(worst_lse, std::abs(lse - (top + std::log(total))));
      for (int c = 0; c < s.d; ++c) {
        const double want = seen ? sum[c] / total : 0, e = std::abs(float(out[h * s.d + c]) - want);
        worst = std::isnan(e) ? INFINITY : std::max(worst, e), square += e * e, ++count;
        highest = std::max(highest, std::abs(want));
      }
    }
  }
  printf("   max err %.2e of max %.2e (%.5f), rms %.2e, lse %.1e\n", worst, highest, worst / highest,
         std::sqrt(square / count), worst_lse);
}

template <int kDim, int kWarps, int kStageKeys, int kBlocks, Bias kBias>
void variant(const char* name, const Shape& s, Data& x, bool check) {
  auto kernel = attention_kernel<T, kDim, kWarps, kStageKeys, kBlocks, kBias>;
  const size_t shared = shared_bytes<kWarps, kStageKeys, kDim>();
  must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
  int occupancy = 0;
  must(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&occupancy, kernel, kWarps * 32, shared));
  const dim3 grid((s.lq + kWarps * 32 - 1) / (kWarps * 32), s.h, s.b);
  must(cudaMemset(x.out, 0xff, size_t(s.b) * s.lq * s.h * s.d * 2));
  must(cudaMemset(x.lse, 0xff, size_t(s.b) * s.h * s.lq * 4));
  cudaEvent_t start, stop;
  cudaEventCreate(&start), cudaEventCreate(&stop);
  kernel<<<grid, kWarps * 32, shared>>>(x.p);
  must(cudaGetLastError());
  must(cudaDeviceSynchronize());
  std::vector<float> times;
  double spent = 0;
  while (times.size() < 5 || (spent < 300 && times.size() < 100)) {
    cudaEventRecord(start);
    kernel<<<grid, kWarps * 32, shared>>>(x.p);
    cudaEventRecord(stop);
    must(cudaDeviceSynchronize());
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    times.push_back(ms), spent += ms;
  }
  std::sort(times.begin(), times.end());
  const double ms = times[times.size() / 2];
  double pairs = double(s.lq) * s.lk;
  if (s.causal) {
    pairs = 0;
    for (int i = 0; i < s.lq; ++i) pairs += std::clamp(i + x.p.offset + 1, 0, s.lk);
  }
  printf("%-28s B%d H%d %dx%d d%d%s: %.3f ms (min %.3f) %.1f TFLOP/s, %d blocks/SM\n", name, s.b, s.h, s.lq,
         s.lk, s.d, s.causal ? " causal" : "", ms, times[0], 4.0 * s.b * s.h * pairs * s.d / ms * 1e-9,
         occupancy);
  if (check) verify(s, x);
  fflush(stdout);
}

template <int kDim>
void all(const Shape& s, bool check) {
  Data x = make(s);
  variant<kDim, 4, 64, 2, Bias::none>("w4 keys64 x2", s, x, check);
  variant<kDim, 8, 64, 1, Bias::none>("w8 keys64 x1", s, x, check);
  variant<kDim, 8, 128, 1, Bias::none>("w8 keys128 x1", s, x, check);
  if constexpr (kDim == 64) {
    variant<kDim, 4, 64, 3, Bias::none>("w4 keys64 x3", s, x, check);
    variant<kDim, 4, 128, 2, Bias::none>("w4 keys128 x2", s, x, check);
  }
  float* bias;
  must(cudaMalloc(&bias, size_t(s.b) * s.lk * 4)), must(cudaMemset(bias, 0, size_t(s.b) * s.lk * 4));
  x.p.key_bias = bias, x.p.key_bias_batch = s.lk;
  variant<kDim, 4, 64, 2, Bias::keys>("w4 keys64 x2 key bias", s, x, check);
  free_data(x), cudaFree(bias);
}

int main(int argc, char**) {
  cudaDeviceProp prop;
  must(cudaGetDeviceProperties(&prop, 0));
  printf("%s, %d SMs\n", prop.name, prop.multiProcessorCount);
  for (const Shape s :
       {Shape{2, 300, 333, 3, 128, false}, Shape{1, 257, 511, 2, 128, true}, Shape{2, 129, 1, 2, 128, false}})
    all<128>(s, true);
  for (const Shape s :
       {Shape{2, 300, 333, 3, 64, false}, Shape{1, 257, 511, 2, 64, true}, Shape{1, 100, 200, 2, 40, false}})
    all<64>(s, true);
  all<128>({1, 32760, 32760, 12, 128, false}, true);
  all<128>({1, 32760, 32760, 40, 128, false}, false);
  all<128>({1, 32760, 512, 12, 128, false}, true);
  all<128>({1, 32760, 512, 40, 128, false}, false);
  all<128>({1, 16384, 16384, 12, 128, true}, false);
  all<64>({1, 32760, 32760, 12, 64, false}, true);
  all<64>({2, 4096, 4096, 6, 64, false}, false);
}
