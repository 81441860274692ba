// Times flash_stays_sm80.cuh beside flash_sm80.cuh and flash_long_sm80.cuh, for some hundred keys and many, and compares all
// results with flash_sm80.cuh's, and sampled rows with a softmax in float64.
//   nvcc -std=c++20 -O3 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -I. -Isrc -Xptxas -v \
//        bench/lab/keys512_variants.cu -o keys512_variants
//   keys512_variants [tiny|check|short]   tiny, check: small shapes alone, once each (tiny: for sanitizers); short:
//                                         512 and 32,768 keys alone
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/attention/flash_stays_sm80.cuh"

using namespace tachy;
using namespace tachy::ops::flash;
using T = __nv_bfloat16;

static void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  printf("cuda: %s\n", cudaGetErrorString(status));
  exit(1);
}
static int multiprocessors = 0, failed = 0;

__device__ float normal(uint64_t i, uint32_t seed) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xbf58476d1ce4e5b9ull;
  x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull, x ^= x >> 27, x *= 0x94d049bb133111ebull, x ^= x >> 31;
  const float u = (uint32_t(x) + 1.0f) / 4294967808.0f, w = uint32_t(x >> 32) / 4294967296.0f;
  return sqrtf(-2 * logf(u)) * cospif(2 * w);
}
__global__ void fill(T* p, size_t n, uint32_t seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    p[i] = __float2bfloat16(normal(i, seed));
}
// sums += {squares of the difference, squares of b, elements that are no numbers}
__global__ void compare(const T* a, const T* b, size_t n, double* sums) {
  double off = 0, of = 0, none = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    const float x = __bfloat162float(a[i]), y = __bfloat162float(b[i]);
    if (fabsf(x) < INFINITY)
      off += (x - y) * (x - y), of += y * y;
    else
      ++none;
  }
  atomicAdd(sums, off), atomicAdd(sums + 1, of), atomicAdd(sums + 2, none);
}
// The same for one row of a head beside float64, one block each.
__global__ void exact(Params p, int heads, int apart, double* sums) {
  __shared__ double score[4096], part[128];
  const int head = blockIdx.x % heads, i = min(p.lq - 1, int(blockIdx.x / heads) * apart), c = threadIdx.x;
  const T* q = static_cast<const T*>(p.q) + i * p.qs.row + head * p.qs.head;
  const T *k = static_cast<const T*>(p.k) + head * p.ks.head,
          *v = static_cast<const T*>(p.v) + head * p.vs.head;
  double sum = 0, total = 0;
  for (int j = c; j < p.lk; j += 128) {
    double dot = 0;
    for (int n = 0; n < 128; ++n) dot += double(float(q[n])) * double(float(k[j * p.ks.row + n]));
    total += score[j] = exp(dot * p.scale);
  }
  part[c] = total;
  __syncthreads();
  total = 0;
  for (int n = 0; n < 128; ++n) total += part[n];
  for (int j = 0; j < p.lk; ++j) sum += score[j] * double(float(v[j * p.vs.row + c]));
  const double want = sum / total,
               got = float(static_cast<const T*>(p.out)[i * p.os.row + head * p.os.head + c]);
  const bool number = fabs(got) < INFINITY;
  atomicAdd(sums, number ? (got - want) * (got - want) : 0), atomicAdd(sums + 1, want * want);
  atomicAdd(sums + 2, number ? 0 : 1);
}

struct Shape {
  int h, lq, lk;
};
struct Way {
  std::string name;
  std::function<void()> run;
  std::vector<float> times;
};

struct Work {
  Shape s;
  T *q, *k, *v, *out, *other;
  double* sums;
  ByteParams p{};
  float factor;
  int notes;  // how many warps have noted something: all that the last kernel was to write

  explicit Work(const Shape& shape) : s(shape) {
    const size_t nq = size_t(s.lq) * s.h * 128, nk = size_t(s.lk) * s.h * 128;
    for (auto [to, n] : {std::pair{&q, nq}, {&k, nk}, {&v, nk}, {&out, nq}, {&other, nq}})
      must(cudaMalloc(to, n * sizeof(T)));
    must(cudaMalloc(&sums, 24));
    notes = (s.lq + 127) / 128 * 8 * s.h;
    must(cudaMalloc(&p.bad, notes));
    fill<<<1024, 256>>>(q, nq, 1), fill<<<1024, 256>>>(k, nk, 2), fill<<<1024, 256>>>(v, nk, 3);
    Params& o = p.to;
    o.q = q, o.k = k, o.v = v, o.out = out;
    const int64_t row = int64_t(s.h) * 128;
    o.qs = o.os = {s.lq * row, row, 128}, o.ks = o.vs = {s.lk * row, row, 128};
    o.lq = s.lq, o.lk = s.lk, o.d = 128, o.scale = 1 / std::sqrt(128.0f);
    p.heads = s.h, factor = o.scale * kLog2e;
  }
  ~Work() {
    for (void* at : {(void*)q, (void*)k, (void*)v, (void*)out, (void*)other, (void*)sums, (void*)p.bad})
      cudaFree(at);
  }
  std::vector<double> read() const {
    std::vector<double> got(3);
    must(cudaMemcpy(got.data(), sums, 24, cudaMemcpyDeviceToHost));
    return got;
  }
  // Compares the last result with flash_sm80's and with float64.
  std::string verdict() {
    must(cudaMemset(sums, 0, 24));
    compare<<<256, 256>>>(out, other, size_t(s.lq) * s.h * 128, sums);
    const auto a = read();
    must(cudaMemset(sums, 0, 24));
    const int rows = std::min(s.lq, 37);
    if (s.lk <= 4096) exact<<<rows * s.h, 128>>>(p.to, s.h, std::max(1, s.lq / rows), sums);
    const auto b = read();
    std::vector<uint8_t> bad(notes);
    must(cudaMemcpy(bad.data(), p.bad, notes, cudaMemcpyDeviceToHost));
    const double near = std::sqrt(a[0] / a[1]), right = b[1] > 0 ? std::sqrt(b[0] / b[1]) : 0;
    const int noted = int(std::count(bad.begin(), bad.end(), 1));
    const bool fine = near < 4e-3 && right < 4e-3 && a[2] + b[2] == 0 && noted == 0;
    failed += !fine;
    char line[160];
    snprintf(line, sizeof line, "%s %.2e of flash_sm80's, %.2e of float64's, %g no numbers, %d noted",
             fine ? "right" : "WRONG", near, right, a[2] + b[2], noted);
    return line;
  }
};

Way staying(Work& x) {
  using C = StaysTile<128>;
  auto kernel = stays_attention_kernel<C>;
  must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(C::kSharedBytes)));
  const int tiles = (x.s.lq + C::kRows - 1) / C::kRows, items = tiles * x.s.h;
  return {"flash_stays_sm80", [=, &x] {
            kernel<<<std::min(items, multiprocessors), C::kThreads, C::kSharedBytes>>>(x.p, x.factor, tiles,
                                                                                       items);
          }};
}
template <class C>
Way leaving(const char* name, Work& x) {
  auto kernel = long_attention_kernel<C>;
  must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(C::kSharedBytes)));
  const dim3 grid((x.s.lq + C::kRows - 1) / C::kRows, x.s.h);
  return {name, [=, &x] { kernel<<<grid, C::kThreads, C::kSharedBytes>>>(x.p, x.factor); }};
}
Way plain(Work& x) {
  auto kernel = attention_kernel<T, 128, 4, 64, 2, Bias::none>;
  constexpr size_t shared = shared_bytes<4, 64, 128>();
  must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
  return {"flash_sm80", [=, &x] { kernel<<<dim3((x.s.lq + 127) / 128, x.s.h, 1), 128, shared>>>(x.p.to); }};
}

// Each way is checked, and then all take turns, so that none has the cold card for itself.
void all(const Shape& s, int rounds) {
  Work x(s);
  std::vector<Way> ways{plain(x)};
  ways.push_back(leaving<LongTile<128>>("flash_long_sm80", x));
  if (s.lk >= 128) ways.push_back(staying(x));
  std::vector<std::string> verdicts;
  for (Way& way : ways) {
    must(cudaMemset(x.out, 0xff, size_t(s.lq) * s.h * 256));
    must(cudaMemset(x.p.bad, 0, x.notes));
    way.run();
    must(cudaGetLastError());
    must(cudaDeviceSynchronize());
    if (&way == &ways[0])
      must(cudaMemcpy(x.other, x.out, size_t(s.lq) * s.h * 256, cudaMemcpyDeviceToDevice));
    verdicts.push_back(x.verdict());
  }
  cudaEvent_t start, stop;
  cudaEventCreate(&start), cudaEventCreate(&stop);
  const double flops = 4.0 * s.h * s.lq * s.lk * 128;
  const int each = std::clamp(int(30e-3 * 350e12 / flops), 1, 40);  // launches of 30 ms
  for (int round = 0; round < rounds; ++round)
    for (Way& way : ways) {
      cudaEventRecord(start);
      for (int i = 0; i < each; ++i) way.run();
      cudaEventRecord(stop);
      must(cudaDeviceSynchronize());
      float ms;
      cudaEventElapsedTime(&ms, start, stop);
      way.times.push_back(ms / each);
    }
  for (size_t i = 0; i < ways.size(); ++i) {
    auto& times = ways[i].times;
    std::sort(times.begin(), times.end());
    if (times.empty()) times.push_back(NAN);
    printf("| %d x %d x %d | %s | %.4f | %.1f | %.1f | %s |\n", s.h, s.lq, s.lk, ways[i].name.c_str(),
           times[times.size() / 2], flops / times[times.size() / 2] * 1e-9, flops / times[0] * 1e-9,
           verdicts[i].c_str());
  }
  fflush(stdout);
}

int main(int argc, char** argv) {
  cudaDeviceProp prop;
  must(cudaGetDeviceProperties(&prop, 0));
  multiprocessors = prop.multiProcessorCount;
  const std::string_view only = argc > 1 ? argv[1] : "";
  printf(
      "%s, %d multiprocessors\n| heads x queries x keys | kernel | ms | T/s | T/s at best | result |\n"
      "| --- | --- | --- | --- | --- | --- |\n",
      prop.name, multiprocessors);
  for (const Shape s : {Shape{1, 256, 128}, {3, 600, 512}, {2, 300, 257}, {1, 33, 129}}) all(s, 0);
  if (only != "tiny")
    for (const Shape s : {Shape{7, 1000, 1024}, {150, 257, 450}}) all(s, 0);
  if (only != "tiny" && only != "check") {
    all({40, 32760, 512}, 12), all({12, 32760, 512}, 12);
    for (const int keys : {128, 256, 257, 1024, 2048})
      if (only != "short") all({12, 32760, keys}, 6);
    all({12, 32768, 32768}, 4);  // the loop alone
  }
  printf("%d results were WRONG\n", failed);
  return failed != 0;
}
