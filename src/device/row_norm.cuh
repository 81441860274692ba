// Norms over the rows of [M, C], with what comes before and after them, in one pass over memory:
//   h = x [+ [gate[row] ·] u]  (stored in `sum` if given)
//   n = norm(h) [· weight] [+ bias] [· (1 + scale[row]) + shift[row]],  y = act(n)
// norm is RMSNorm, LayerNorm, or the VAE's channel norm h·√C / max(‖h‖, 1e-12).
//
// `width` threads share a row, which they hold in registers in the format of memory (Chunks packs each), so
// the mean, the squared deviations and the result are three passes over registers. With Codes the result
// stays there until its largest value is known, and is stored as e4m3 with a scale per row
// (device/quantize.cuh).
//
// Each group computes one row. Two or four rows at once were 5 to 30 % slower on an H200 (fewer groups fit);
// a loop over rows that prefetches the next one (in registers, or by bulk copies into shared memory) was 2 to
// 10 % slower. At an H200's 4.2 TB/s a multiprocessor has to handle five values per cycle, which allows 25
// instructions per value. So the usual sets of parameters (Parts) have code of their own without the others.
// And a thread that holds few packs loads their parameters together with the values: a short launch then
// waits for memory once instead of twice.
//
// In a short launch each instruction before the loads and after the sum counts. So the width is a power of
// two and is passed as its logarithm (a division by it takes 45 instructions), 1 / c is passed as a factor,
// and the square root is computed without a call (4096 rows of 2,048: 9.6 -> 9.3 us on an H200).
//
//   block of 128 threads, width 32:   warp 0: row 0   warp 1: row 1  …     width 128: warps 0-3: row 0
#pragma once

#include <type_traits>

#include "device/overlap.cuh"
#include "device/quantize.cuh"
#include "device/reduce.cuh"
#include "device/vec.cuh"

namespace tachy::device {

enum class RowNorm { rms, layer, channel };

// W is the type of weight and bias: float or, if a model's own are read in place, X.
template <class X, class U, class Y, class W = float>
struct RowNormParams {
  // The members that a plain norm needs come first, because a short launch waits for each line of constants
  // that it touches.
  const X* x;
  int64_t x_stride, rows;
  int c, log2_width;     // 2^log2_width threads share a row
  float eps, inverse_c;  // inverse_c is 1 / c
  const W* weight;       // optional
  Y* y;
  int64_t y_stride;
  bool streaming;  // sum and y are too large for the cache

  const W* bias;  // optional
  const U* u;     // with Add
  X* sum;         // optional
  int64_t u_stride, sum_stride;
  const float *gate, *scale, *shift;  // optional; scale and shift together
  int64_t gate_stride, scale_stride, shift_stride;
  const int32_t* row;  // optional
  bool round_twice;    // n is rounded to Y before the weight; only with a weight and nothing after it
  uint8_t* codes;      // with Codes, in place of y
  int64_t codes_stride;
  float* codes_scale;
};

// The parameters for which a kernel is made. `any` takes all of them, and uses each whose pointer is not
// null. `usual` takes exactly those of the models' blocks: a weight (RMSNorm, channel norm), or scale and
// shift (LayerNorm). `twice` takes a weight after a rounding (an RMSNorm module whose norm and weight are two
// operations).
enum class Parts { any, usual, twice };

// LayerNorm passes over its values three times, and for 16-bit ones it uses an exact division and root. These
// are calls, and across a call the compiler keeps values in their memory format. Without the calls it keeps
// them widened: 76 registers instead of 56, and 174 us instead of 164 for 32,760 rows of 5,120 (H200).
template <RowNorm kKind, class X>
inline constexpr bool kExact = kKind == RowNorm::layer && sizeof(X) == 2;

template <RowNorm kKind, class X>
__device__ __forceinline__ float norm_factor(float squares, int c, float inverse_c, float eps) {
  if constexpr (kKind == RowNorm::channel)
    return sqrtf(static_cast<float>(c)) / fmaxf(sqrtf(squares), 1e-12f);
  else if constexpr (kExact<kKind, X>)
    return 1.0f / sqrtf(squares / static_cast<float>(c) + eps);
  else
    return rsqrtf(fmaf(squares, inverse_c, eps));
}

// An RMSNorm of 16-bit values gets 64 registers: a thousand blocks of 128 threads run at once, so 2,048 rows
// of 2,048 are one wave (5.65 us on an H200, 5.90 with 69 registers). Other norms would have to spill, and
// lose 7 to 15 %.
template <RowNorm kKind, bool Add, class X, class Y>
inline constexpr bool kFewRegisters = kKind == RowNorm::rms && !Add && sizeof(X) == 2 && sizeof(Y) == 2;

// Each thread has Chunks packs of N values; a block has blockDim.x / width groups.
template <RowNorm kKind, bool Add, Act kAct, Parts kParts, int N, int Chunks, class X, class U, class Y,
          class W, bool Codes = false>
__global__ void __launch_bounds__(512, kFewRegisters<kKind, Add, X, Y> ? 2 : 1)
    row_norm_kernel(const RowNormParams<X, U, Y, W> p) {
  wait_for_previous_kernel();
  constexpr bool kUsual = kParts != Parts::any, kLayer = kKind == RowNorm::layer;
  constexpr bool kWidenAgain = kFewRegisters<kKind, Add, X, Y>;
  constexpr bool kEarly = kUsual && Chunks <= (kLayer ? 2 : 4) && !Add;
  __shared__ float scratch[2 * 16];
  const int width = 1 << p.log2_width, lane = threadIdx.x & (width - 1), packs = p.c / N;
  const int row = blockIdx.x * (blockDim.x >> p.log2_width) + (threadIdx.x >> p.log2_width);
  const bool live = row < static_cast<int>(p.rows);  // a group without a row takes part only in the barriers
  const auto has = [&](int j) { return live && j * width + lane < packs; };
  const auto at = [&](int j) { return (j * width + lane) * N; };

  const X* x = p.x + row * p.x_stride + lane * N;
  Pack<X, N> h[Chunks];
#pragma unroll
  for (int j = 0; j < Chunks; ++j) {
    if (has(j)) {
      h[j] = load<X, N>(x + j * width * N);
    } else {
#pragma unroll
      for (uint32_t& word : h[j].words) word = 0;
    }
  }
  Pack<U, N> u[Add ? Chunks : 1];
  if constexpr (Add)
#pragma unroll
    for (int j = 0; j < Chunks; ++j)
      if (has(j)) u[j] = load<U, N>(p.u + row * p.u_stride + at(j));

  const int64_t part = p.row && live ? p.row[row] : 0;
  const float *scales = p.scale + part * p.scale_stride, *shifts = p.shift + part * p.shift_stride;
  SharedRow<std::conditional_t<kLayer, float, W>, N> early[kEarly ? Chunks : 1];  // weight, or scale
  SharedRow<float, N> early_shift[kEarly && kLayer ? Chunks : 1];
  if constexpr (kEarly)
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      if (!has(j)) continue;
      if constexpr (kLayer)
        early[j].load(scales + at(j)), early_shift[j].load(shifts + at(j));
      else
        early[j].load(p.weight + at(j));
    }

  if constexpr (Add) {
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      if (!has(j)) continue;
      float gate[N], v[N];
      if (p.gate) {
        load_shared_row<N>(p.gate + part * p.gate_stride + at(j), gate);
      } else {
#pragma unroll
        for (int i = 0; i < N; ++i) gate[i] = 1;
      }
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = fmaf(gate[i], u[j].get(i), h[j].get(i));
      h[j].set(v);
      if (p.sum) store(p.sum + row * p.sum_stride + at(j), h[j], p.streaming);
    }
  }

  float mean[1] = {0}, factor[1] = {0};
  if constexpr (kLayer) {
#pragma unroll
    for (int j = 0; j < Chunks; ++j)
#pragma unroll
      for (int i = 0; i < N; ++i) mean[0] += h[j].get(i);
    group_sum(mean, width, scratch, 0);
    mean[0] = kExact<kKind, X> ? mean[0] / static_cast<float>(p.c) : mean[0] * p.inverse_c;
  }
#pragma unroll
  for (int j = 0; j < Chunks; ++j) {
    if (kLayer && !has(j)) continue;  // these packs are only zeros
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float d = h[j].get(i) - mean[0];
      factor[0] = fmaf(d, d, factor[0]);
    }
  }
  group_sum(factor, width, scratch, 1);
  factor[0] = norm_factor<kKind, X>(factor[0], p.c, p.inverse_c, p.eps);

  Pack<Y, N> made[Codes ? Chunks : 1] = {};
#pragma unroll
  for (int j = 0; j < Chunks; ++j) {
    if (!has(j)) continue;
    float v[N], a[N], b[N];
#pragma unroll
    for (int i = 0; i < N; ++i)
      v[i] = ((kWidenAgain ? h[j].get_again(i) : h[j].get(i)) - mean[0]) * factor[0];
    if constexpr (kUsual && kLayer) {
      if constexpr (kEarly) {
#pragma unroll
        for (int i = 0; i < N; ++i) a[i] = early[j].get(i), b[i] = early_shift[j].get(i);
      } else {
        load_shared_row<N>(scales + at(j), a);
        load_shared_row<N>(shifts + at(j), b);
      }
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = fmaf(v[i], 1.0f + a[i], b[i]);
    } else if constexpr (kUsual) {
      SharedRow<W, N> weight;
      if constexpr (!kEarly) weight.load(p.weight + at(j));
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if constexpr (kParts == Parts::twice) v[i] = rounded<Y>(v[i]);
        v[i] *= kEarly ? early[j].get(i) : weight.get(i);
      }
    } else {
      SharedRow<W, N> affine;
      if (p.weight) {
        affine.load(p.weight + at(j));
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] *= affine.get(i);
      }
      if (p.bias) {
        affine.load(p.bias + at(j));
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] += affine.get(i);
      }
      if (p.scale) {
        load_shared_row<N>(scales + at(j), a);
        load_shared_row<N>(shifts + at(j), b);
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = fmaf(v[i], 1.0f + a[i], b[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = activate<sizeof(Y) == 2>(v[i], kAct);
    if constexpr (Codes)
      made[j].set(v);
    else
      store(p.y + row * p.y_stride + at(j), v, p.streaming);
  }
  if constexpr (Codes) {
    __shared__ uint32_t tops[16];
    const float scale = scale_of<To::e4m3>(group_max_bits(largest_of(made), width, tops));
    if (!live) return;
    const Divisor by = divisor(scale);
    if (lane == 0) p.codes_scale[row] = scale;
    uint8_t* to = p.codes + row * p.codes_stride;
#pragma unroll
    for (int j = 0; j < Chunks; ++j) {
      if (!has(j)) continue;
      if (by.quick)
        store_quantized<Y, To::e4m3, N, true>(to + at(j), made[j], by);
      else
        store_quantized<Y, To::e4m3, N>(to + at(j), made[j], by);
    }
  }
}

// For any C, strides and alignment. One block takes a row, value by value; each pass reads the row again.
template <RowNorm kKind, bool Add, Act kAct, class X, class U, class Y, class W>
__global__ void __launch_bounds__(256) row_norm_any_kernel(const RowNormParams<X, U, Y, W> p) {
  __shared__ float scratch[33];
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const int64_t part = p.row ? p.row[row] : 0;
    const X* x = p.x + row * p.x_stride;
    // The value that is normalised. In each pass a thread reads the values that it wrote itself.
    const auto sum_of = [&](int j) {
      if constexpr (Add) {
        const float gate = p.gate ? p.gate[part * p.gate_stride + j] : 1.0f;
        return rounded<X>(fmaf(gate, as_float(p.u[row * p.u_stride + j]), as_float(x[j])));
      } else {
        return as_float(x[j]);
      }
    };
    float mean = 0, squares = 0;
    for (int j = threadIdx.x; j < p.c; j += blockDim.x) {
      const float v = sum_of(j);
      if (Add && p.sum) p.sum[row * p.sum_stride + j] = from_float<X>(v);
      mean += v;
    }
    const auto value = [&](int j) {
      return Add && p.sum ? as_float(p.sum[row * p.sum_stride + j]) : sum_of(j);
    };
    mean = kKind == RowNorm::layer ? block_sum(mean, scratch) / static_cast<float>(p.c) : 0.0f;
    for (int j = threadIdx.x; j < p.c; j += blockDim.x) {
      const float d = value(j) - mean;
      squares = fmaf(d, d, squares);
    }
    const float factor = norm_factor<kKind, X>(block_sum(squares, scratch), p.c, p.inverse_c, p.eps);
    for (int j = threadIdx.x; j < p.c; j += blockDim.x) {
      float v = (value(j) - mean) * factor;
      if (p.round_twice) v = rounded<Y>(v);
      v = v * (p.weight ? as_float(p.weight[j]) : 1.0f) + (p.bias ? as_float(p.bias[j]) : 0.0f);
      if (p.scale) v = fmaf(v, 1.0f + p.scale[part * p.scale_stride + j], p.shift[part * p.shift_stride + j]);
      p.y[row * p.y_stride + j] = from_float<Y>(activate<sizeof(Y) == 2>(v, kAct));
    }
  }
}

}  // namespace tachy::device
