// The norm as codes of e4m3 or int8. 1 to 32 threads share a position and read each of its packs of 8 values
// once. A position that does not consist of packs, or has more than 1,024 channels, is computed
// value by value, by one warp.
#include "cuda/dispatch.h"
#include "cuda/overlap.h"
#include "cuda/row_norm.h"
#include "device/quantize.cuh"
#include "ops/channel_norm/channel_norm.h"

namespace tachy::ops {
namespace {

constexpr int kValues = 8, kThreads = 128, kMostChunks = 4;

template <class X>
struct Params {
  const X* x;
  const float* gamma;
  uint8_t* y;
  int64_t rows;
  int c, log2_width;
  float inverse;  // 1 / the codes' scale
  bool whole;     // codes are int8
};

template <class X>
__device__ __forceinline__ uint32_t code_pair(const Params<X>& p, float a, float b) {
  return p.whole ? device::quantized_pair<device::To::i8>(a, b)
                 : device::quantized_pair<device::To::e4m3>(a, b);
}

// Each thread has Chunks packs.
template <class X, device::Act kAct, int Chunks>
__global__ void __launch_bounds__(kThreads) norm_codes(const Params<X> p) {
  device::wait_for_previous_kernel();
  constexpr int kEach = device::kPack<X> < kValues ? device::kPack<X> : kValues, kParts = kValues / kEach;
  __shared__ float scratch[2 * 16];
  const int width = 1 << p.log2_width, lane = threadIdx.x & (width - 1), packs = p.c / kValues;
  const int64_t row = blockIdx.x * int64_t{blockDim.x >> p.log2_width} + (threadIdx.x >> p.log2_width);
  const auto has = [&](int j) { return row < p.rows && j * width + lane < packs; };
  device::Pack<X, kEach> in[Chunks][kParts];
  float squares[1] = {0};
#pragma unroll
  for (int j = 0; j < Chunks; ++j) {
    if (!has(j)) continue;
#pragma unroll
    for (int k = 0; k < kParts; ++k) {
      in[j][k] = device::load<X, kEach>(p.x + row * p.c + (j * width + lane) * kValues + k * kEach);
#pragma unroll
      for (int i = 0; i < kEach; ++i) squares[0] = fmaf(in[j][k].get(i), in[j][k].get(i), squares[0]);
    }
  }
  device::group_sum(squares, width, scratch, 0);
  const float factor = device::norm_factor<device::RowNorm::channel, X>(squares[0], p.c, 0, 0);
#pragma unroll
  for (int j = 0; j < Chunks; ++j) {
    if (!has(j)) continue;
    const int at = (j * width + lane) * kValues;
    float gamma[kValues], v[kValues];
    device::load_shared_row<kValues>(p.gamma + at, gamma);
#pragma unroll
    for (int i = 0; i < kValues; ++i)
      v[i] = device::activate<true>(in[j][i / kEach].get(i % kEach) * factor * gamma[i], kAct) * p.inverse;
    uint32_t words[2];
#pragma unroll
    for (int i = 0; i < kValues; i += 4)
      words[i / 4] = code_pair(p, v[i], v[i + 1]) | code_pair(p, v[i + 2], v[i + 3]) << 16;
    *reinterpret_cast<uint2*>(p.y + row * p.c + at) = make_uint2(words[0], words[1]);
  }
}

template <class X, device::Act kAct>
__global__ void __launch_bounds__(kThreads) norm_codes_any(const Params<X> p) {
  const int64_t row = blockIdx.x * int64_t{kThreads / 32} + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= p.rows) return;
  const X* x = p.x + row * p.c;
  float squares = 0;
  for (int j = lane; j < p.c; j += 32)
    squares = fmaf(device::as_float(x[j]), device::as_float(x[j]), squares);
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
  const float factor = device::norm_factor<device::RowNorm::channel, X>(squares, p.c, 0, 0);
  for (int j = lane; j < p.c; j += 32) {
    const float v = device::activate<true>(device::as_float(x[j]) * factor * p.gamma[j], kAct) * p.inverse;
    p.y[row * p.c + j] = static_cast<uint8_t>(code_pair(p, v, 0.0f));
  }
}

template <class X, device::Act kAct>
void run(const ChannelNormArgs& a, Params<X> p, const Stream& stream) {
  const int packs = p.c / kValues;
  const bool fits = cuda::fits_packs(kValues, {&a.x, &a.y, &a.gamma}) && packs <= 32 * kMostChunks;
  if (!fits)
    return cuda::launch("channel_norm", norm_codes_any<X, kAct>,
                        {cuda::blocks_for(p.rows, kThreads / 32), kThreads}, stream, p);
  while ((kMostChunks << p.log2_width) < packs) ++p.log2_width;
  const cuda::LaunchShape shape{cuda::blocks_for(p.rows, kThreads >> p.log2_width), kThreads};
  const auto go = [&]<int Chunks>() {
    cuda::launch_overlapping("channel_norm", norm_codes<X, kAct, Chunks>, shape, stream, p);
  };
  switch ((packs + (1 << p.log2_width) - 1) >> p.log2_width) {
    case 1:
      return go.template operator()<1>();
    case 2:
      return go.template operator()<2>();
    case 3:
      return go.template operator()<3>();
    default:
      return go.template operator()<4>();
  }
}

}  // namespace

void channel_norm_codes_cuda(const ChannelNormArgs& a, Stream& stream) {
  if (a.x.numel() == 0) return;
  cuda::dispatch_float("channel_norm", a.x.dtype, [&]<class X>() {
    Params<X> p{.x = cuda::data_of<X>(a.x), .gamma = cuda::data_of<float>(a.gamma)};
    p.y = cuda::data_of<uint8_t>(a.y), p.inverse = 1 / a.y_scale;
    p.whole = a.y.dtype == DType::i8;
    p.rows = a.x.dims[0], p.c = static_cast<int>(a.x.dims[1]);
    if (a.silu)
      run<X, device::Act::silu>(a, p, stream);
    else
      run<X, device::Act::none>(a, p, stream);
  });
}

}  // namespace tachy::ops
