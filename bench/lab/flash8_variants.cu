// Times flash8.cuh (attention with both products in 8 bits, a trial) beside cuDNN and flash_sm90, on data like a
// model's (flash90_variants.cu), and how far each result is from cuDNN's.
//   flash8_variants          built on demand (target lab_flash8); medians
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/graph.h"
#include "cuda/tensor_map.h"
#include "flash8.cuh"
#include "ops/attention/attention.h"

namespace tachy::ops {
void set_forced_impl(const char* op, const char* name);  // impl_table.h, which nvcc does not take
}
using namespace tachy;
using T = __nv_bfloat16;

__device__ uint8_t e4m3(float x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3); }

__global__ void fill(T* p, int64_t tokens, int heads, uint32_t seed, bool is_k, float factor) {
  const int64_t n = tokens * heads * 128;
  const auto normal = [](uint64_t x) {
    x *= 0x9e3779b97f4a7c15ull, x ^= x >> 30, x *= 0xbf58476d1ce4e5b9ull, x ^= x >> 27;
    x *= 0x94d049bb133111ebull, x ^= x >> 31;
    const float u = (uint32_t(x) + 1.0f) / 4294967808.0f, w = uint32_t(x >> 32) / 4294967296.0f;
    return sqrtf(-2 * logf(u)) * cospif(2 * w);
  };
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x) {
    float x = normal(i + 1 + (uint64_t(seed) << 40));
    const int64_t in_row = i % (heads * 128);
    if (is_k) {
      x += 2 * normal(in_row + 1 + (uint64_t(seed + 7) << 40));
      if (in_row % 128 % 37 == 0) x *= 4;
    }
    p[i] = __float2bfloat16(x * factor);
  }
}

// Of each channel over all keys. Grid: heads·128 / 32; block 32 x 32.
__global__ void channel_means(const T* k, int64_t tokens, int width, float* mean) {
  __shared__ float part[32][33];
  const int channel = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  for (int64_t l = threadIdx.y; l < tokens; l += 32) sum += __bfloat162float(k[l * width + channel]);
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y) return;
  sum = 0;
  for (int i = 0; i < 32; ++i) sum += part[i][threadIdx.x];
  mean[channel] = sum / tokens;
}

// [L, H, 128] → [H, L, 128], (x − mean)·factor
__global__ void narrow(const T* x, int64_t tokens, int heads, const float* mean, float factor, uint8_t* to) {
  const int64_t n = tokens * heads * 128;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t l = i / (heads * 128), in_row = i % (heads * 128), h = in_row / 128, c = in_row % 128;
    const float value = __bfloat162float(x[i]) - (mean ? mean[in_row] : 0);
    to[(h * tokens + l) * 128 + c] = e4m3(value * factor);
  }
}

// [L, H, 128] → [H, L, 128] in int8: turned by signs and a Hadamard transform of the channels, which spreads what stands
// out. A warp a row, 4 channels a lane; `group` rows share a scale, which is written times `factor`.
__global__ void narrow_turned(const T* x, int64_t tokens, int heads, const float* mean, float factor,
                              int group, int64_t groups, int8_t* to, float* scales) {
  __shared__ float most[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int64_t h = blockIdx.y, g = blockIdx.x, first = g * group;
  float largest = 0;
  const auto turned = [&](int64_t l, float(&v)[4]) {
    for (int i = 0; i < 4; ++i) {
      const int c = lane * 4 + i;
      const int64_t in_row = h * 128 + c;
      v[i] = __bfloat162float(x[l * heads * 128 + in_row]) - (mean ? mean[in_row] : 0);
      if (__popc((c * 0x9e3779b9u) >> 7) & 1) v[i] = -v[i];
    }
    float a = v[0] + v[1], b = v[0] - v[1], c = v[2] + v[3], d = v[2] - v[3];
    v[0] = a + c, v[1] = b + d, v[2] = a - c, v[3] = b - d;
    for (int step = 1; step < 32; step *= 2)
      for (int i = 0; i < 4; ++i) {
        const float other = __shfl_xor_sync(~0u, v[i], step);
        v[i] = lane & step ? other - v[i] : v[i] + other;
      }
    for (int i = 0; i < 4; ++i) v[i] *= 0.08838834764831845f;  // 1 / sqrt(128)
  };
  for (int64_t l = first + warp; l < min(first + group, tokens); l += warps) {
    float v[4];
    turned(l, v);
    for (int i = 0; i < 4; ++i) largest = fmaxf(largest, fabsf(v[i]));
  }
  for (int step = 16; step; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  if (lane == 0) most[warp] = largest;
  __syncthreads();
  for (int i = 0; i < warps; ++i) largest = fmaxf(largest, most[i]);
  const float scale = fmaxf(largest, 1e-20f) / 127;
  if (threadIdx.x == 0) scales[h * groups + g] = scale * factor;
  for (int64_t l = first + warp; l < min(first + group, tokens); l += warps) {
    float v[4];
    turned(l, v);
    for (int i = 0; i < 4; ++i)
      to[(h * tokens + l) * 128 + lane * 4 + i] = static_cast<int8_t>(rintf(v[i] / scale));
  }
}

// [L, H, 128] → [H, 128, padded], keys in the order of flash8.cuh
__global__ void transpose(const T* v, int64_t tokens, int heads, int64_t padded, uint8_t* to) {
  const int64_t n = int64_t{heads} * 128 * padded;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n;
       i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t at = i % padded, channel = i / padded;
    const int p = static_cast<int>(at % 16), quad = p / 4, j = p % 4;
    const int64_t key = at / 16 * 16 + (j < 2 ? 2 * quad + j : 8 + 2 * quad + j - 2);
    to[i] = key < tokens ? e4m3(__bfloat162float(v[key * heads * 128 + channel])) : 0;
  }
}

CUtensorMap bytes_map(const void* data, int64_t row_bytes, int64_t rows, int64_t heads, int64_t box_rows) {
  const cuda::TensorMapShape m{.rank = 4,  // as pairs of bytes
                               .dims = {row_bytes / 2, rows, heads, 1},
                               .strides = {1, row_bytes / 2, row_bytes / 2 * rows, 8},
                               .box = {64, box_rows, 1, 1}};
  return cuda::make_tensor_map("flash8", DType::bf16, data, m);
}

struct Shape {
  int heads, lq, lk;
};

int main() {
  auto gpu = cuda::open_gpu();
  ThreadPool pool(1);
  std::map<std::string, std::unique_ptr<Arena>> arenas;  // made in the call before the capture
  const auto queue = static_cast<cudaStream_t>(gpu->stream());
  for (const Shape s :
       {Shape{12, 32760, 32760}, Shape{40, 32760, 32760}, Shape{12, 4680, 32760}, Shape{40, 75600, 75600}}) {
    const int64_t width = s.heads * int64_t{128}, padded = (int64_t{s.lk} + 127) / 128 * 128;
    const auto bytes = [&](int64_t n) { return Buffer(static_cast<size_t>(n), gpu.get()); };
    Buffer qb = bytes(s.lq * width * 2), kb = bytes(s.lk * width * 2), vb = bytes(s.lk * width * 2),
           ob = bytes(s.lq * width * 2), q8 = bytes(s.lq * width), k8 = bytes(s.lk * width),
           v8 = bytes(padded * width), mean = bytes(width * 4), q_whole = bytes(s.lq * width),
           k_whole = bytes(s.lk * width), q_scales = bytes(int64_t{s.heads} * s.lq * 4),
           k_scales = bytes(s.heads * (padded / 64) * 4);
    const auto tensor = [&](Buffer& b, int64_t l) {
      Tensor t = b.tensor(DType::bf16, {1, l, s.heads, 128});
      t.device = gpu->device();
      return t;
    };
    const auto at = [](Buffer& b) { return static_cast<T*>(b.data()); };
    fill<<<1056, 256, 0, queue>>>(at(qb), s.lq, s.heads, 1, false, 1.44269504f / std::sqrt(128.0f));
    fill<<<1056, 256, 0, queue>>>(at(kb), s.lk, s.heads, 2, true, 1);
    fill<<<1056, 256, 0, queue>>>(at(vb), s.lk, s.heads, 3, false, 1);
    ops::AttentionArgs a{
        .q = tensor(qb, s.lq), .k = tensor(kb, s.lk), .v = tensor(vb, s.lk), .scale = 0.69314718f};
    a.out = tensor(ob, s.lq);
    const auto quantize = [&] {
      channel_means<<<static_cast<unsigned>(width / 32), dim3(32, 32), 0, queue>>>(
          at(kb), s.lk, static_cast<int>(width), static_cast<float*>(mean.data()));
      narrow<<<2112, 256, 0, queue>>>(at(qb), s.lq, s.heads, nullptr, 4, static_cast<uint8_t*>(q8.data()));
      narrow<<<2112, 256, 0, queue>>>(at(kb), s.lk, s.heads, static_cast<float*>(mean.data()), 0.25f,
                                      static_cast<uint8_t*>(k8.data()));
      transpose<<<2112, 256, 0, queue>>>(at(vb), s.lk, s.heads, padded, static_cast<uint8_t*>(v8.data()));
    };
    const auto quantize_whole = [&] {
      channel_means<<<static_cast<unsigned>(width / 32), dim3(32, 32), 0, queue>>>(
          at(kb), s.lk, static_cast<int>(width), static_cast<float*>(mean.data()));
      narrow_turned<<<dim3(static_cast<unsigned>(s.lq), static_cast<unsigned>(s.heads)), 32, 0, queue>>>(
          at(qb), s.lq, s.heads, nullptr, 1, 1, s.lq, static_cast<int8_t*>(q_whole.data()),
          static_cast<float*>(q_scales.data()));
      narrow_turned<<<dim3(static_cast<unsigned>(padded / 64), static_cast<unsigned>(s.heads)), 256, 0,
                      queue>>>(at(kb), s.lk, s.heads, static_cast<float*>(mean.data()), 1, 64, padded / 64,
                               static_cast<int8_t*>(k_whole.data()), static_cast<float*>(k_scales.data()));
      transpose<<<2112, 256, 0, queue>>>(at(vb), s.lk, s.heads, padded, static_cast<uint8_t*>(v8.data()));
    };
    quantize(), quantize_whole();
    const flash8::Maps whole{bytes_map(q_whole.data(), 128, s.lq, s.heads, 64),
                             bytes_map(k_whole.data(), 128, s.lk, s.heads, 64),
                             bytes_map(v8.data(), padded, 128, s.heads, 64)};
    const flash8::Maps maps{bytes_map(q8.data(), 128, s.lq, s.heads, 64),
                            bytes_map(k8.data(), 128, s.lk, s.heads, 64),
                            bytes_map(v8.data(), padded, 128, s.heads, 64)};
    flash8::Params p{.out = at(ob),
                     .q_scales = static_cast<const float*>(q_scales.data()),
                     .k_scales = static_cast<const float*>(k_scales.data()),
                     .out_row = width,
                     .lq = s.lq,
                     .lk = s.lk,
                     .heads = s.heads};
    p.steps = (s.lk + flash8::kKeys - 1) / flash8::kKeys, p.units_per_head = (s.lq + 255) / 256;
    p.units = s.heads * p.units_per_head;
    const auto in_8_bits = [&](auto* kernel, const flash8::Maps& of) {
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, flash8::kSharedBytes);
      cudaLaunchAttribute cluster{};
      cluster.id = cudaLaunchAttributeClusterDimension, cluster.val.clusterDim = {flash8::kCluster, 1, 1};
      const cudaLaunchConfig_t config{
          .gridDim = dim3(static_cast<unsigned>(gpu->info().multiprocessors / 2 * 2)),
          .blockDim = dim3(384),
          .dynamicSmemBytes = flash8::kSharedBytes,
          .stream = queue,
          .attrs = &cluster,
          .numAttrs = 1};
      const cudaError_t error = cudaLaunchKernelEx(&config, kernel, of, p);
      if (error != cudaSuccess) fail(ErrorCode::device, "{}", cudaGetErrorString(error));
    };
    const auto by_table = [&](const char* name) {
      ops::set_forced_impl("attention", name);
      Arena measure;
      Stream stream{.arena = &measure, .pool = &pool, .gpu = gpu.get(), .memory = gpu.get()};
      ops::attention(a, stream);
      std::unique_ptr<Arena>& arena = arenas[name + std::to_string(s.heads * int64_t{s.lq})];
      if (!arena) arena = std::make_unique<Arena>(measure.peak(), gpu.get());
      stream.arena = arena.get();
      ops::attention(a, stream);
      ops::set_forced_impl("attention", nullptr);
    };
    const std::pair<const char*, std::function<void()>> variants[] = {
        {"cudnn", [&] { by_table("cudnn"); }},
        {"flash_sm90", [&] { by_table("flash_sm90"); }},
        {"e4m3, nothing subtracted", [&] { in_8_bits(flash8::kernel<false, false>, maps); }},
        {"e4m3, a shift a row", [&] { in_8_bits(flash8::kernel<false, true>, maps); }},
        {"int8 and e4m3", [&] { in_8_bits(flash8::kernel<true, true>, whole); }},
        {"(rounding, untuned)", quantize_whole}};
    const double flops = 4.0 * s.heads * s.lq * static_cast<double>(s.lk) * 128;
    const size_t sampled = std::min<size_t>(static_cast<size_t>(a.out.bytes()), 64 << 20);
    std::vector<T> first, got(sampled / 2);
    for (const auto& [name, run] : variants) {
      try {
        const bool attends = name[0] != '(';
        if (attends) gpu->fill(a.out.data, 0xff, static_cast<size_t>(a.out.bytes()));
        run();
        const auto graph = cuda::capture(*gpu, run);
        graph->launch();
        std::vector<double> times;
        for (double total = 0; times.size() < 5 || (total < 300e3 && times.size() < 40);
             total += times.back())
          times.push_back(cuda::device_us(*gpu, [&] { graph->launch(); }));
        std::sort(times.begin(), times.end());
        const double us = times[times.size() / 2];
        gpu->download(got.data(), static_cast<char*>(a.out.data) + a.out.bytes() - sampled, sampled);
        if (first.empty()) first = got;
        double dot = 0, aa = 0, bb = 0, diff = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const double x = float(got[i]), y = float(first[i]);
          dot += x * y, aa += x * x, bb += y * y, diff += (x - y) * (x - y);
        }
        std::printf(
            "%2d x %5d x %5d  %-30s %9.1f us (min %9.1f) %6.1f TFLOP/s  off by %.2e of its norm, cosine "
            "%.5f\n",
            s.heads, s.lq, s.lk, name, us, times[0], attends ? flops / us * 1e-6 : 0, std::sqrt(diff / bb),
            dot / std::sqrt(aa * bb));
      } catch (const std::exception& error) {
        std::printf("%2d x %5d x %5d  %-30s %s\n", s.heads, s.lq, s.lk, name, error.what());
      }
      std::fflush(stdout);
    }
  }
}
