// Exact, as the definition: IEEE divisions, the hardware's conversion to f8 (round to nearest even).
//   blocks in one row   a warp (or a block of threads) finds the block's amax and quantises it while it is in
//                       cache: one pass over memory
//   other blocks        amax by maxima of bit patterns (|x| as an integer orders like |x|, NaN above all),
//                       then the scales, then the values
#include <cuda_fp8.h>

#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "ops/quantize/quantize_grid.h"

namespace tachy::ops {
namespace {

using namespace device;

struct Grid {
  int64_t rows, columns, block_rows, block_columns, bands, strips;
  explicit Grid(const QuantGrid& g)
      : rows(g.rows),
        columns(g.columns),
        block_rows(g.block_rows),
        block_columns(g.block_columns),
        bands(g.bands),
        strips(g.strips) {}
};

enum class To { e4m3, e5m2, i8 };

template <To kTo>
__device__ __forceinline__ float top() {
  return kTo == To::e4m3 ? 448.0f : kTo == To::e5m2 ? 57344.0f : 127.0f;
}

template <To kTo>
__device__ __forceinline__ float scale_of(uint32_t amax_bits) {
  const float amax = __uint_as_float(amax_bits);
  if (amax == 0.0f) return 1.0f;
  const float scale = __fdiv_rn(amax, top<kTo>());
  return scale < 0x1p-126f ? 0x1p-126f : scale;
}

template <To kTo>
__device__ __forceinline__ uint8_t quantized(float x, float scale) {
  float v = __fdiv_rn(x, scale);
  if (isnan(v)) return kTo == To::i8 ? 0 : 0x7f;
  v = fminf(fmaxf(v, -top<kTo>()), top<kTo>());
  if constexpr (kTo == To::e4m3) return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
  if constexpr (kTo == To::e5m2) return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2);
  return static_cast<uint8_t>(static_cast<int8_t>(rintf(v)));
}

template <To kTo>
__device__ __forceinline__ float value_of(uint8_t q) {
  if constexpr (kTo == To::e4m3) return __half2float(__half(__nv_cvt_fp8_to_halfraw(q, __NV_E4M3)));
  if constexpr (kTo == To::e5m2) return __half2float(__half(__nv_cvt_fp8_to_halfraw(q, __NV_E5M2)));
  return static_cast<float>(static_cast<int8_t>(q));
}

template <class X>
__device__ __forceinline__ uint32_t magnitude(X x) {
  return __float_as_uint(as_float(x)) & 0x7fffffffu;
}

__device__ __forceinline__ uint32_t warp_max_bits(uint32_t v) {
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) v = max(v, __shfl_xor_sync(0xffffffffu, v, offset));
  return v;
}

template <class T, int N>
struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) Vec {
  T v[N];
};

// Blocks of one row: `width` threads (32, or the whole block of 256) take one; N values at a time.
template <class X, To kTo, int N>
__global__ void __launch_bounds__(256)
    quantize_row_blocks_kernel(const X* x, int64_t x_stride, uint8_t* q, int64_t q_stride, float* scales,
                               const Grid g, const int width) {
  __shared__ uint32_t scratch[8];
  const int64_t b = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / width;
  const bool live = b < g.rows * g.strips;
  const int64_t row = live ? b / g.strips : 0, begin = live ? b % g.strips * g.block_columns : 0;
  const int64_t stop = begin + g.block_columns;
  const int64_t end = !live ? begin : stop < g.columns ? stop : g.columns;
  const X* from = x + row * x_stride;
  uint8_t* to = q + row * q_stride;
  const int lane = threadIdx.x % width;
  uint32_t amax = 0;
  for (int64_t j = begin + lane * N; j < end; j += width * N) {
    const auto in = *reinterpret_cast<const Vec<X, N>*>(from + j);
#pragma unroll
    for (int i = 0; i < N; ++i) amax = max(amax, magnitude(in.v[i]));
  }
  amax = warp_max_bits(amax);
  if (width > 32) {
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = amax;
    __syncthreads();
    for (int w = 0; w < 8; ++w) amax = max(amax, scratch[w]);
  }
  if (!live) return;
  const float scale = scale_of<kTo>(amax);
  if (lane == 0) scales[b] = scale;
  for (int64_t j = begin + lane * N; j < end; j += width * N) {
    const auto in = *reinterpret_cast<const Vec<X, N>*>(from + j);
    Vec<uint8_t, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out.v[i] = quantized<kTo>(as_float(in.v[i]), scale);
    *reinterpret_cast<Vec<uint8_t, N>*>(to + j) = out;
  }
}

// A thread block takes `slab` rows of one quantisation block; amax bits gather in the scales.
template <class X, int N>
__global__ void __launch_bounds__(256) amax_kernel(const X* x, int64_t stride, uint32_t* amax, const Grid g,
                                                   const int64_t slab, const int64_t pieces) {
  __shared__ uint32_t scratch[8];
  const int64_t unit = blockIdx.x, b = unit / pieces;
  const int64_t band = b / g.strips, strip = b % g.strips;
  const int64_t first = band * g.block_rows + unit % pieces * slab;
  const int64_t band_end = min((band + 1) * g.block_rows, g.rows), last = min(first + slab, band_end);
  const int64_t begin = strip * g.block_columns, end = min(begin + g.block_columns, g.columns);
  const auto across = static_cast<uint32_t>((end - begin) / N),
             count = static_cast<uint32_t>(last - first) * across;
  uint32_t best = 0;
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
    const auto in =
        *reinterpret_cast<const Vec<X, N>*>(x + (first + i / across) * stride + begin + i % across * N);
#pragma unroll
    for (int k = 0; k < N; ++k) best = max(best, magnitude(in.v[k]));
  }
  best = warp_max_bits(best);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 0; w < 8; ++w) best = max(best, scratch[w]);
  atomicMax(amax + b, best);
}

template <To kTo>
__global__ void __launch_bounds__(256) scale_kernel(float* scales, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) scales[i] = scale_of<kTo>(__float_as_uint(scales[i]));
}

// Both directions, N columns a thread, all of one block.
template <class X, To kTo, int N, bool Back>
__global__ void __launch_bounds__(256)
    convert_kernel(X* x, int64_t x_stride, uint8_t* q, int64_t q_stride, const float* scales, const Grid g) {
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (column >= g.columns) return;
  const auto strip = static_cast<uint32_t>(column) / static_cast<uint32_t>(g.block_columns);
  for (int64_t row = blockIdx.y; row < g.rows; row += gridDim.y) {
    const float scale = scales[row / g.block_rows * g.strips + strip];
    auto* wide = reinterpret_cast<Vec<X, N>*>(x + row * x_stride + column);
    auto* narrow = reinterpret_cast<Vec<uint8_t, N>*>(q + row * q_stride + column);
    if constexpr (Back) {
      const auto in = *narrow;
      Vec<X, N> out;
#pragma unroll
      for (int k = 0; k < N; ++k) out.v[k] = from_float<X>(__fmul_rn(value_of<kTo>(in.v[k]), scale));
      *wide = out;
    } else {
      const auto in = *wide;
      Vec<uint8_t, N> out;
#pragma unroll
      for (int k = 0; k < N; ++k) out.v[k] = quantized<kTo>(as_float(in.v[k]), scale);
      *narrow = out;
    }
  }
}

template <class Body>
void dispatch_to(DType dtype, Body&& body) {
  if (dtype == DType::f8_e4m3) return body.template operator()<To::e4m3>();
  if (dtype == DType::f8_e5m2) return body.template operator()<To::e5m2>();
  return body.template operator()<To::i8>();
}

bool fits(int n, const Tensor& wide, const Tensor& q, const QuantGrid& g) {
  return g.block_columns % n == 0 && cuda::fits_packs(n, {&wide, &q});
}

template <class X, To kTo, int N, bool Back>
void convert(const Tensor& wide, const Tensor& q, const Tensor& scale, const QuantGrid& g, Stream& stream) {
  cuda::launch(
      "quantize", convert_kernel<X, kTo, N, Back>,
      {dim3(cuda::blocks_for(g.columns, 256 * N), static_cast<unsigned>(std::min<int64_t>(g.rows, 65535))),
       256},
      stream, static_cast<X*>(wide.data), wide.strides[0], static_cast<uint8_t*>(q.data), q.strides[0],
      static_cast<const float*>(scale.data), Grid(g));
}

template <class X, To kTo, int N>
void quantize_with(const QuantizeArgs& a, const QuantGrid& g, Stream& stream) {
  const auto* x = static_cast<const X*>(a.x.data);
  auto* scales = static_cast<float*>(a.scale.data);
  const int64_t blocks = g.bands * g.strips;
  if (!a.given_scale && g.block_rows == 1) {
    const int width = g.block_columns > 512 ? 256 : 32;
    return cuda::launch("quantize", quantize_row_blocks_kernel<X, kTo, N>,
                        {cuda::blocks_for(blocks * width, 256), 256}, stream, x, a.x.strides[0],
                        static_cast<uint8_t*>(a.q.data), a.q.strides[0], scales, Grid(g), width);
  }
  if (!a.given_scale) {
    stream.gpu->fill(scales, 0, static_cast<size_t>(blocks) * 4);
    const int64_t slab = std::max<int64_t>(1, 16384 / g.block_columns),
                  pieces = (g.block_rows + slab - 1) / slab;
    cuda::launch("quantize", amax_kernel<X, N>, {static_cast<unsigned>(blocks * pieces), 256}, stream, x,
                 a.x.strides[0], reinterpret_cast<uint32_t*>(scales), Grid(g), slab, pieces);
    cuda::launch("quantize", scale_kernel<kTo>, {cuda::blocks_for(blocks, 256), 256}, stream, scales, blocks);
  }
  convert<X, kTo, N, false>(a.x, a.q, a.scale, g, stream);
}

}  // namespace

void quantize_cuda(const QuantizeArgs& a, Stream& stream) {
  if (stream.measuring() || a.x.numel() == 0) return;
  const QuantGrid g(a.x, a.block);
  cuda::dispatch_float("quantize", a.x.dtype, [&]<class X>() {
    dispatch_to(a.q.dtype, [&]<To kTo>() {
      if (fits(4, a.x, a.q, g))
        quantize_with<X, kTo, 4>(a, g, stream);
      else
        quantize_with<X, kTo, 1>(a, g, stream);
    });
  });
}

void dequantize_cuda(const DequantizeArgs& a, Stream& stream) {
  if (a.y.numel() == 0) return;
  const QuantGrid g(a.y, a.block);
  cuda::dispatch_float("dequantize", a.y.dtype, [&]<class X>() {
    dispatch_to(a.q.dtype, [&]<To kTo>() {
      if (fits(4, a.y, a.q, g))
        convert<X, kTo, 4, true>(a.y, a.q, a.scale, g, stream);
      else
        convert<X, kTo, 1, true>(a.y, a.q, a.scale, g, stream);
    });
  });
}

}  // namespace tachy::ops
