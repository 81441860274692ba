// The results are exactly those of the definition (device/quantize.cuh). There are these ways:
//   blocks in one row   the threads of a row hold it in registers between its amax and its values: one pass
//                       over memory; too long for that, the row is read again from the cache
//   other blocks        amax by maxima of bit patterns (|x| as an integer orders like |x|, NaN above all),
//                       then the scales, then the values, several rows in flight
#include "cuda/row_plan.h"
#include "device/quantize.cuh"
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

// Blocks of one row, held in registers: `width` threads take one, with Chunks packs each.
template <class X, To kTo, int N, int Chunks>
__global__ void __launch_bounds__(512)
    quantize_held_rows_kernel(const X* x, int64_t x_stride, uint8_t* q, int64_t q_stride, float* scales,
                              const Grid g, const int width) {
  __shared__ uint32_t scratch[16];
  const int lane = threadIdx.x % width;
  const int64_t b = static_cast<int64_t>(blockIdx.x) * (blockDim.x / width) + threadIdx.x / width;
  const bool live = b < g.rows * g.strips;
  const int64_t row = g.strips == 1 ? b : b / g.strips, begin = (b - row * g.strips) * g.block_columns;
  const auto packs = static_cast<int>(min(g.block_columns, g.columns - begin) / N);
  const X* from = x + row * x_stride + begin;
  Pack<X, N> in[Chunks] = {};
#pragma unroll
  for (int j = 0; j < Chunks; ++j)
    if (live && j * width + lane < packs) in[j] = load<X, N>(from + (j * width + lane) * N);
  const uint32_t amax = group_max_bits(largest_of(in), width, scratch);
  if (!live) return;
  const float scale = scale_of<kTo>(amax);
  const Divisor by = divisor(scale);
  if (lane == 0) scales[b] = scale;
  uint8_t* to = q + row * q_stride + begin;
  const auto store = [&]<bool kBounded>() {
#pragma unroll
    for (int j = 0; j < Chunks; ++j)
      if (j * width + lane < packs)
        store_quantized<X, kTo, N, kBounded>(to + (j * width + lane) * N, in[j], by);
  };
  by.quick ? store.template operator()<true>() : store.template operator()<false>();
}

// The same for rows of any length, each with a block of 256 threads.
template <class X, To kTo, int N>
__global__ void __launch_bounds__(256) quantize_rows_kernel(const X* x, int64_t x_stride, uint8_t* q,
                                                            int64_t q_stride, float* scales, const Grid g) {
  __shared__ uint32_t scratch[8];
  const int64_t b = blockIdx.x, row = b / g.strips, begin = b % g.strips * g.block_columns;
  const int64_t end = min(begin + g.block_columns, g.columns);
  const X* from = x + row * x_stride;
  uint32_t amax = 0;
  for (int64_t j = begin + threadIdx.x * N; j < end; j += 256 * N) amax = largest(amax, load<X, N>(from + j));
  const float scale = scale_of<kTo>(group_max_bits(amax, 256, scratch));
  const Divisor by = divisor(scale);
  if (threadIdx.x == 0) scales[b] = scale;
  for (int64_t j = begin + threadIdx.x * N; j < end; j += 256 * N)
    store_quantized<X, kTo, N>(q + row * q_stride + j, load<X, N>(from + j), by);
}

// A thread block takes `slab` rows of one quantisation block; the bits of amax are collected in the scales.
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
    best = largest(best, load<X, N>(x + (first + i / across) * stride + begin + i % across * N));
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

// Serves both directions. A thread keeps N columns of one block and takes Ahead neighbouring rows at once.
template <class X, To kTo, int N, bool Back, int Ahead>
__global__ void __launch_bounds__(256)
    convert_kernel(X* x, int64_t x_stride, uint8_t* q, int64_t q_stride, const float* scales, const Grid g) {
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (column >= g.columns) return;
  const auto strip = static_cast<uint32_t>(column) / static_cast<uint32_t>(g.block_columns);
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.y * Ahead;
  for (int64_t r = (static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y) * Ahead; r < g.rows;
       r += step) {
    Pack<X, N> wide[Ahead];
    Pack<uint8_t, N> narrow[Ahead];
    float scale[Ahead];
#pragma unroll
    for (int k = 0; k < Ahead; ++k) {
      const int64_t row = r + k;
      if (row >= g.rows) continue;
      if constexpr (Back)
        narrow[k] = load_bytes<N>(q + row * q_stride + column);
      else
        wide[k] = load<X, N>(x + row * x_stride + column);
      const auto band = static_cast<uint32_t>(row) / static_cast<uint32_t>(g.block_rows);
      scale[k] = __ldg(scales + band * g.strips + strip);
    }
#pragma unroll
    for (int k = 0; k < Ahead; ++k) {
      const int64_t row = r + k;
      if (row >= g.rows) continue;
      if constexpr (Back) {
        float v[N];
#pragma unroll
        for (int i = 0; i < N; ++i)
          v[i] =
              __fmul_rn(value_of<kTo>(static_cast<uint8_t>(narrow[k].words[i / 4] >> i % 4 * 8)), scale[k]);
        store(x + row * x_stride + column, v);
      } else {
        store_quantized<X, kTo, N>(q + row * q_stride + column, wide[k], divisor(scale[k]));
      }
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
  const cuda::ColumnShape shape(g.columns / N, g.rows, 4);
  cuda::launch("quantize", convert_kernel<X, kTo, N, Back, 4>, {shape.grid, shape.block}, stream,
               static_cast<X*>(wide.data), wide.strides[0], static_cast<uint8_t*>(q.data), q.strides[0],
               static_cast<const float*>(scale.data), Grid(g));
}

template <class X, To kTo, int N>
void quantize_with(const QuantizeArgs& a, const QuantGrid& g, Stream& stream) {
  const auto* x = static_cast<const X*>(a.x.data);
  auto* q = static_cast<uint8_t*>(a.q.data);
  auto* scales = static_cast<float*>(a.scale.data);
  const int64_t blocks = g.bands * g.strips;
  if (!a.given_scale && g.block_rows == 1) {
    const cuda::RowPlan plan = cuda::plan_row(std::max<int64_t>(1, g.block_columns / N), blocks, stream);
    if (!plan.chunks)
      return cuda::launch("quantize", quantize_rows_kernel<X, kTo, N>, {static_cast<unsigned>(blocks), 256},
                          stream, x, a.x.strides[0], q, a.q.strides[0], scales, Grid(g));
    return cuda::dispatch_chunks(plan.chunks, [&]<int Chunks>() {
      cuda::launch("quantize", quantize_held_rows_kernel<X, kTo, N, Chunks>,
                   {cuda::blocks_for(blocks, plan.threads / plan.width), static_cast<unsigned>(plan.threads)},
                   stream, x, a.x.strides[0], q, a.q.strides[0], scales, Grid(g), plan.width);
    });
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
      if (fits(kPack<X>, a.x, a.q, g))
        quantize_with<X, kTo, kPack<X>>(a, g, stream);
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
      if (fits(kPack<X>, a.y, a.q, g))
        convert<X, kTo, kPack<X>, true>(a.y, a.q, a.scale, g, stream);
      else
        convert<X, kTo, 1, true>(a.y, a.q, a.scale, g, stream);
    });
  });
}

}  // namespace tachy::ops
