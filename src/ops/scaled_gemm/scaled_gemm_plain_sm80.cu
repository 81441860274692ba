// The linear layer in 8 bits on every GPU since sm_80, for rows that the fast kernel (scaled_gemm_sm80.cu)
// does not take because they do not begin at multiples of 16 bytes, and for e4m3 on GPUs whose tensor cores
// do not multiply it. A block of four warps computes one tile of 64 x 64, with 64 codes of K at a time
// through shared memory. int8 is multiplied by mma.sync in int8 with exact sums. Codes of e4m3 are widened to
// f16, exactly, before mma.sync with float32 sums, so that sm_80, which has no products of e4m3, can use them
// too. It is made to be correct, not to be the fastest.
#include <cuda_fp8.h>

#include "cuda/dispatch.h"
#include "device/mma_sm80.cuh"
#include "device/numeric.cuh"
#include "device/vec.cuh"
#include "ops/scaled_gemm/scaled_gemm_impl.h"

namespace tachy::ops {
namespace {

constexpr int kTile = 64, kDepth = 64, kPitch = kDepth + 16;  // bytes of a row in shared memory

struct Params {
  const uint8_t *x, *w;
  const float *x_scale, *w_scale;
  const void *bias, *addend;
  void* y;
  int64_t x_row, addend_row, y_row, m;
  int n, k;
  device::Act act;
};

// Loads rows [first, first + kTile) and codes [from, from + kDepth) of a matrix; what lies beyond it is zero.
template <bool kPacks>
__device__ __forceinline__ void fetch(const uint8_t* matrix, int64_t stride, int64_t rows, int64_t first,
                                      int k, int from, uint8_t (&to)[kTile * kPitch]) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth / 16; i += 128) {
    const int row = i / (kDepth / 16), at = i % (kDepth / 16) * 16;
    uint4 codes = {};
    if (first + row < rows) {
      const uint8_t* source = matrix + (first + row) * stride + from + at;
      if (kPacks && from + at < k) {
        codes = *reinterpret_cast<const uint4*>(source);
      } else if (!kPacks) {
        uint8_t bytes[16] = {};
        for (int j = 0; j < 16; ++j)
          if (from + at + j < k) bytes[j] = source[j];
        memcpy(&codes, bytes, 16);
      }
    }
    *reinterpret_cast<uint4*>(to + row * kPitch + at) = codes;
  }
}

__device__ __forceinline__ void multiply(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  asm volatile("trap;");
#endif
}

// Two of the four codes in a word, as f16.
__device__ __forceinline__ uint32_t widened(uint32_t word, int half) {
  const auto pair = static_cast<__nv_fp8x2_storage_t>(half ? word >> 16 : word & 0xffffu);
  const __half2_raw wide = __nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3);
  return wide.x | static_cast<uint32_t>(wide.y) << 16;
}

// A word holds four neighbouring codes of K; the first two go to one half of a product over 16
// values of K and the last two to its other half. The order does not matter to a sum, as long as
// both operands have the same.
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const uint32_t wide[4] = {widened(a[2 * part], 0), widened(a[2 * part + 1], 0), widened(a[2 * part], 1),
                              widened(a[2 * part + 1], 1)};
    device::mma<__half>(c, wide, widened(b[part], 0), widened(b[part], 1));
  }
}

template <class T, class Sum, bool kPacks>
__global__ void __launch_bounds__(128) scaled_gemm_kernel(const Params p) {
  __shared__ alignas(16) uint8_t xs[kTile * kPitch], ws[kTile * kPitch];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4, row0 = warp / 2 * 32, column0 = warp % 2 * 32;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kTile,
                column = static_cast<int64_t>(blockIdx.x) * kTile;
  Sum sums[2][4][4] = {};
  for (int from = 0; from < p.k; from += kDepth) {
    __syncthreads();
    fetch<kPacks>(p.x, p.x_row, p.m, first, p.k, from, xs);
    fetch<kPacks>(p.w, p.k, p.n, column, p.k, from, ws);
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kDepth; step += 32) {
      const auto word = [&](const uint8_t* tile, int row, int at) {
        return *reinterpret_cast<const uint32_t*>(tile + row * kPitch + step + at + t * 4);
      };
      uint32_t a[2][4], b[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) a[i][j] = word(xs, row0 + i * 16 + g + j % 2 * 8, j / 2 * 16);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) b[i][j] = word(ws, column0 + i * 8 + g, j * 16);
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply(sums[i][j], a[i], b[j]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t row = first + row0 + i * 16 + g + e / 2 * 8,
                      at = column + column0 + j * 8 + t * 2 + e % 2;
        if (row >= p.m || at >= p.n) continue;
        float v = static_cast<float>(sums[i][j][e]) * (p.x_scale[row] * p.w_scale[at]);
        if (p.bias) v += device::load<T, 1>(static_cast<const T*>(p.bias) + at).get(0);
        if (p.addend)
          v += device::load<T, 1>(static_cast<const T*>(p.addend) + row * p.addend_row + at).get(0);
        const float out[1] = {device::activate<(sizeof(T) == 2)>(v, p.act)};
        device::store(static_cast<T*>(p.y) + row * p.y_row + at, out);
      }
}

}  // namespace

std::optional<Refusal> scaled_gemm_why_not_plain_sm80(const ScaledGemmArgs& a, const Stream& stream) {
  if (stream.gpu->info().capability() < 80)
    return Refusal::weak_gpu("products in int8 need compute capability 8.0");
  if (a.x.dtype == DType::i8 && a.x.dims[1] > 131071)
    return Refusal::arguments("sums that int32 does not hold");
  return std::nullopt;
}

void scaled_gemm_plain_sm80(const ScaledGemmArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  const auto row = [](const Tensor& t) { return t.defined() ? t.strides[0] : 0; };
  const Params p{.x = static_cast<const uint8_t*>(a.x.data),
                 .w = static_cast<const uint8_t*>(a.weight.data),
                 .x_scale = static_cast<const float*>(a.x_scale.data),
                 .w_scale = static_cast<const float*>(a.weight_scale.data),
                 .bias = a.bias.defined() ? a.bias.data : nullptr,
                 .addend = a.addend.defined() ? a.addend.data : nullptr,
                 .y = a.y.data,
                 .x_row = row(a.x),
                 .addend_row = row(a.addend),
                 .y_row = row(a.y),
                 .m = a.x.dims[0],
                 .n = static_cast<int>(a.weight.dims[0]),
                 .k = static_cast<int>(a.x.dims[1]),
                 .act = static_cast<device::Act>(a.act)};
  const bool packs = cuda::fits_packs(16, {&a.x, &a.weight}), integers = a.x.dtype == DType::i8;
  const cuda::LaunchShape shape{dim3(cuda::blocks_for(p.n, kTile), cuda::blocks_for(p.m, kTile)), dim3(128)};
  cuda::dispatch_float("scaled_gemm", a.y.dtype, [&]<class T>() {
    const auto kernel =
        integers ? (packs ? scaled_gemm_kernel<T, int32_t, true> : scaled_gemm_kernel<T, int32_t, false>)
                 : (packs ? scaled_gemm_kernel<T, float, true> : scaled_gemm_kernel<T, float, false>);
    cuda::launch("scaled_gemm", kernel, shape, stream, p);
  });
}

}  // namespace tachy::ops
