// Times variants of attention in 8 bits by mma.sync (flash8_sm80.cuh) beside the bf16 kernel (flash_sm80.cuh),
// and checks sampled rows against a softmax in float64.
//   nvcc -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -Isrc -Xptxas -v \
//        bench/lab/attention8_variants.cu -o attention8_variants
// q and v are hashed normal numbers. k's channels have means of 2 times such numbers, and three of them are
// four times as large (as in the peers' runs). The output starts as NaN.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "ops/attention/flash8_quantize_sm80.cuh"
#include "ops/attention/flash8_rows_sm80.cuh"
#include "ops/attention/flash_long_sm80.cuh"

using namespace tachy;
using namespace tachy::ops::flash;
using T = __nv_bfloat16;

static void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  printf("cuda: %s\n", cudaGetErrorString(status));
  exit(1);
}

__device__ float normal(uint64_t i, uint32_t seed) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;
  x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull, x ^= x >> 27, x *= 0x94d049bb133111ebull, x ^= x >> 31;
  const float u = (uint32_t(x) + 1.0f) / 4294967808.0f, w = uint32_t(x >> 32) / 4294967296.0f;
  return sqrtf(-2 * logf(u)) * cospif(2 * w);
}
__global__ void fill(T* p, size_t n, uint32_t seed, int heads, bool key) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    float v = normal(i, seed);
    if (key) v += 2 * normal(i % (heads * 128), 77), v *= i % 128 < 3 ? 4 : 1;
    p[i] = __float2bfloat16(v);
  }
}

struct Shape {
  int lq, lk, h, d;
};
struct Data {
  Shape s;
  T *q, *k, *v, *out;
  float* lse;
  Params p{};
  ByteParams b{};
  int8_t *qc, *kc;
  float *q_scales, *q_offsets, *k_scales, *v_scales;
  __half* v16;
  T* k_means;
  Head8* about;
  double* sums;
  size_t notes = 0;  // of the last variant
};

template <class U>
void take(U*& to, size_t count) {
  must(cudaMalloc(&to, count * sizeof(U)));
}

Data make(const Shape& s) {
  Data x{s};
  const size_t nq = size_t(s.lq) * s.h * s.d, nk = size_t(s.lk) * s.h * s.d;
  take(x.q, nq), take(x.k, nk), take(x.v, nk), take(x.out, nq), take(x.lse, size_t(s.h) * s.lq);
  fill<<<1024, 256>>>(x.q, nq, 1, s.h, false), fill<<<1024, 256>>>(x.k, nk, 2, s.h, true),
      fill<<<1024, 256>>>(x.v, nk, 3, s.h, false);
  Params& p = x.p;
  p.q = x.q, p.k = x.k, p.v = x.v, p.out = x.out, p.lse = x.lse;
  const int64_t row = int64_t(s.h) * s.d;
  p.qs = p.os = {s.lq * row, row, s.d}, p.ks = p.vs = {s.lk * row, row, s.d};
  p.lse_batch = int64_t(s.h) * s.lq, p.lse_head = s.lq;
  p.lq = s.lq, p.lk = s.lk, p.d = s.d, p.scale = 1.0f / std::sqrt(float(s.d));
  take(x.qc, size_t(s.lq) * s.h * 128), take(x.kc, size_t(s.lk) * s.h * 128);
  take(x.q_scales, size_t(s.lq) * s.h), take(x.q_offsets, size_t(s.lq) * s.h);
  take(x.k_scales, size_t(s.lk + 127) / 128 * s.h), take(x.k_means, s.h * 128), take(x.about, s.h);
  take(x.b.bad, size_t(s.lq + 511) / 128 * 4 * s.h), take(x.b.asked, 1);
  take(x.v_scales, s.h * 128), take(x.v16, size_t(s.lk) * s.h * 128);
  must(cudaMemset(x.b.asked, 0, 8));
  x.b.to = p, x.b.q = x.qc, x.b.k = x.kc, x.b.q_scales = x.q_scales, x.b.q_offsets = x.q_offsets;
  x.b.v = x.v16, x.b.v_scales = x.v_scales, x.b.k_scales = x.k_scales, x.b.about = x.about, x.b.heads = s.h;
  return x;
}
void free_data(Data& x) {
  cudaFree(x.q), cudaFree(x.k), cudaFree(x.v), cudaFree(x.out), cudaFree(x.lse), cudaFree(x.qc),
      cudaFree(x.kc);
  cudaFree(x.q_scales), cudaFree(x.q_offsets), cudaFree(x.k_scales), cudaFree(x.k_means), cudaFree(x.about);
  cudaFree(x.b.bad), cudaFree(x.b.asked), cudaFree(x.v_scales), cudaFree(x.v16);
}

// One block for a row of a head: sums = {squares of the error, squares of the result, largest error, lse's}.
__global__ void reference(Params p, int heads, int apart, double* sums) {
  extern __shared__ double score[];
  __shared__ double part[256];
  const int head = blockIdx.x % heads, i = min(p.lq - 1, int(blockIdx.x / heads) * apart);
  const T* q = static_cast<const T*>(p.q) + i * p.qs.row + head * p.qs.head;
  const T *k = static_cast<const T*>(p.k) + head * p.ks.head,
          *v = static_cast<const T*>(p.v) + head * p.vs.head;
  const auto all = [&](double value, bool most) {
    __syncthreads();
    part[threadIdx.x] = value;
    __syncthreads();
    double sum = part[0];
    for (int t = 1; t < 256; ++t) sum = most ? fmax(sum, part[t]) : sum + part[t];
    return sum;
  };
  double total = 0, sum = 0;
  constexpr int kPart = 8192;
  double top = -1e300;
  for (int j = threadIdx.x; j < p.lk; j += 256) {
    double dot = 0;
    for (int c = 0; c < p.d; ++c) dot += double(float(q[c])) * double(float(k[j * p.ks.row + c]));
    top = fmax(top, dot * p.scale);
  }
  top = all(top, true);
  for (int begin = 0; begin < p.lk; begin += kPart) {
    const int end = min(p.lk, begin + kPart);
    for (int j = begin + threadIdx.x; j < end; j += 256) {
      double dot = 0;
      for (int c = 0; c < p.d; ++c) dot += double(float(q[c])) * double(float(k[j * p.ks.row + c]));
      total += score[j - begin] = exp(dot * p.scale - top);
    }
    __syncthreads();
    if (threadIdx.x < p.d)
      for (int j = begin; j < end; ++j)
        sum += score[j - begin] * double(float(v[j * p.vs.row + threadIdx.x]));
    __syncthreads();
  }
  total = all(total, false);
  const T* out = static_cast<const T*>(p.out) + i * p.os.row + head * p.os.head;
  const double want = threadIdx.x < p.d ? sum / total : 0;
  const double off = threadIdx.x < p.d ? double(float(out[threadIdx.x])) - want : 0;
  const double off2 = all(off * off, false), want2 = all(want * want, false), most = all(fabs(off), true);
  if (threadIdx.x == 0) {
    double* to = sums + blockIdx.x * 4;
    to[0] = off2, to[1] = want2, to[2] = most, to[3] = p.lse[head * p.lse_head + i] - (top + log(total));
  }
}

void verify(const Data& x) {
  const int rows = std::min(24, x.s.lq), apart = std::max(1, x.s.lq / (rows - 1 ? rows - 1 : 1));
  double* sums;
  take(sums, size_t(rows) * x.s.h * 4);
  must(cudaFuncSetAttribute(reference, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  reference<<<rows * x.s.h, 256, 65536>>>(x.p, x.s.h, apart, sums);
  std::vector<double> all(size_t(rows) * x.s.h * 4);
  must(cudaMemcpy(all.data(), sums, all.size() * 8, cudaMemcpyDeviceToHost));
  cudaFree(sums);
  double off = 0, want = 0, most = 0, lse = 0;
  for (size_t i = 0; i < all.size(); i += 4) {
    off += all[i], want += all[i + 1], most = std::max(most, all[i + 2]);
    if (!(std::abs(all[i + 3]) <= lse)) lse = std::abs(all[i + 3]);
  }
  std::vector<uint8_t> bad(x.notes);
  must(cudaMemcpy(bad.data(), x.b.bad, bad.size(), cudaMemcpyDeviceToHost));
  printf("   error %.2e of the norm, at most %.1e; lse %.1e; %d of %zu noted\n", std::sqrt(off / want), most,
         lse, int(std::count(bad.begin(), bad.end(), 1)), bad.size());
}

template <int kDim>
void quantize(const Data& x, bool half) {
  const Shape& s = x.s;
  const auto tokens = [&](const T* p, int l) {
    return Tokens8{p, int64_t(l) * s.h * s.d, int64_t(s.h) * s.d, s.d, l, s.h, s.d};
  };
  sample8<Tokens8><<<s.h, 1024>>>(tokens(x.k, s.lk), tokens(x.v, s.lk), kTopInHalf, x.k_means,
                                  half ? x.v_scales : nullptr, x.about);
  const dim3 keys((s.lk + 127) / 128, s.h), queries((s.lq + 127) / 128, s.h);
  if (half) halve8<kDim, Tokens8><<<keys, 256>>>(tokens(x.v, s.lk), x.v_scales, x.v16, x.about);
  turn8<true, kDim, Tokens8>
      <<<keys, 4 * kDim>>>(tokens(x.k, s.lk), x.k_means, 1.0f, x.kc, x.k_scales, nullptr, x.about);
  turn8<false, kDim, Tokens8><<<queries, 4 * kDim>>>(tokens(x.q, s.lq), x.k_means, x.p.scale * kLog2e / kDim,
                                                     x.qc, x.q_scales, x.q_offsets, x.about);
}

void timed(const char* name, const Data& x, const std::function<void()>& run, bool check) {
  const Shape& s = x.s;
  must(cudaMemset(x.out, 0xff, size_t(s.lq) * s.h * s.d * 2));
  must(cudaMemset(x.lse, 0xff, size_t(s.h) * s.lq * 4));
  cudaEvent_t start, stop;
  cudaEventCreate(&start), cudaEventCreate(&stop);
  run();
  must(cudaGetLastError());
  must(cudaDeviceSynchronize());
  std::vector<float> times;
  double spent = 0;
  while (times.size() < 5 || (spent < 300 && times.size() < 100)) {
    cudaEventRecord(start);
    run();
    cudaEventRecord(stop);
    must(cudaDeviceSynchronize());
    float ms;
    cudaEventElapsedTime(&ms, start, stop);
    times.push_back(ms), spent += ms;
  }
  std::sort(times.begin(), times.end());
  const double ms = times[times.size() / 2], flops = 4.0 * s.h * s.lq * s.lk * s.d;
  printf("%-26s %d x %d x %d x %d: %.3f ms (least %.3f), %.1f T/s\n", name, s.h, s.lq, s.lk, s.d, ms,
         times[0], flops / ms * 1e-9);
  if (check) verify(x);
  fflush(stdout);
}

template <class C>
void variant(const char* name, Data& x, bool check) {
  auto kernel = byte_attention_kernel<C>;
  must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(C::kSharedBytes)));
  const dim3 grid((x.s.lq + C::kRows - 1) / C::kRows, x.s.h);
  x.notes = size_t{grid.x} * C::kWarps * grid.y;
  timed(
      name, x,
      [&] {
        quantize<C::kDim>(x, C::kHalf);
        kernel<<<grid, C::kThreads, C::kSharedBytes>>>(x.b);
      },
      check);
}

template <class C>
void long_variant(const char* name, Data& x, bool check) {
  auto kernel = long_attention_kernel<C>;
  must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(C::kSharedBytes)));
  const dim3 grid((x.s.lq + C::kRows - 1) / C::kRows, x.s.h);
  x.notes = size_t{grid.x} * C::kWarps * grid.y;
  timed(
      name, x, [&] { kernel<<<grid, C::kThreads, C::kSharedBytes>>>(x.b, x.p.scale * kLog2e); }, check);
}

// Head dims up to 64.
void narrow(const Shape& s, bool check) {
  Data x = make(s);
  auto plain = attention_kernel<T, 64, 4, 64, 3, Bias::none>;
  const size_t shared = shared_bytes<4, 64, 64>();
  must(cudaFuncSetAttribute(plain, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
  timed(
      "bf16", x, [&] { plain<<<dim3((s.lq + 127) / 128, s.h, 1), 128, shared>>>(x.p); }, check);
  timed(
      "quantising alone", x, [&] { quantize<64>(x, false); }, false);
  long_variant<LongTile<128, 12, 64>>("bf16, 128 keys, 12 warps", x, check);
  long_variant<LongTile<64, 4, 64, 3>>("bf16, 64 keys, 3 x 4", x, check);
  variant<ByteTile<128, false, 12, 64>>("8 bits, 128 keys, 12 warps", x, check);
  variant<ByteTile<64, false, 4, 64, 3>>("8 bits, 64 keys, 3 x 4", x, check);
  variant<ByteTile<64, true, 8, 64>>("8 bits, f16 sums, 8 warps", x, check);
  free_data(x);
}

void all(const Shape& s, bool check) {
  if (s.d <= 64) return narrow(s, check);
  Data x = make(s);
  auto plain = attention_kernel<T, 128, 4, 64, 2, Bias::none>;
  const size_t shared = shared_bytes<4, 64, 128>();
  must(cudaFuncSetAttribute(plain, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
  timed(
      "bf16", x, [&] { plain<<<dim3((s.lq + 127) / 128, s.h, 1), 128, shared>>>(x.p); }, check);
  timed(
      "quantising alone", x, [&] { quantize<128>(x, false); }, false);
  long_variant<LongTile<128>>("bf16, stages of 128 keys", x, check);
  long_variant<LongTile<64>>("bf16, stages of 64 keys", x, check);
  variant<ByteTile<128, false>>("8 bits, 128 keys", x, check);
  variant<ByteTile<64, false>>("8 bits, 64 keys", x, check);
  variant<ByteTile<64, true>>("8 bits, 64 keys, f16 sums", x, check);
  free_data(x);
}

// With an argument: `profile`, only a large shape, a few times; `few`, only heads of 64 channels and few keys.
int main(int argc, char** argv) {
  cudaDeviceProp prop;
  must(cudaGetDeviceProperties(&prop, 0));
  printf("%s, %d SMs\n", prop.name, prop.multiProcessorCount);
  const std::string_view only = argc > 1 ? argv[1] : "";
  if (only == "profile") return all({2816, 32768, 12, 128}, true), 0;
  for (const Shape s : {Shape{300, 333, 3, 128}, Shape{257, 511, 2, 128}, Shape{129, 1, 2, 128},
                        Shape{100, 5000, 2, 64}, Shape{1, 66, 1, 104}, Shape{500, 333, 2, 40}})
    all(s, true);
  all({32760, 32760, 24, 64}, true);
  if (only != "few") {
    all({32760, 32760, 12, 128}, true);
    all({32760, 32760, 12, 128}, false);
    all({32760, 32760, 40, 128}, false);
    all({4680, 32760, 12, 128}, false);
    all({4680, 32760, 24, 64}, false);
  }
  for (const int keys : {128, 256, 512, 1024, 2048}) all({32760, keys, 12, 128}, false);
  all({32760, 512, 40, 128}, false);
}
