// The rotation, and the rotation back, whose sines have the other sign. A thread takes one pack of a head
// and, in LLaMA's pairing, also the pack half a head further.
#include "cuda/dispatch.h"
#include "device/vec.cuh"
#include "ops/rope/rope.h"
#include "ops/rope/rope_backward.h"

namespace tachy::ops {
namespace {

using namespace device;

template <class T>
struct Params {
  const T* x;
  T* y;
  int64_t x_stride[3], y_stride[3];  // strides of batch, token, head
  const float *cos, *sin;
  int64_t cos_stride, sin_stride, tokens, length;
  int heads, half;  // half: number of pairs of a head
  float sign;       // sign of the sines
};

// Each thread takes N values: N/2 adjacent pairs, or N pairs from two packs.
template <class T, int N, bool Halves>
__global__ void __launch_bounds__(256) rope_kernel(const Params<T> p) {
  constexpr int kPairs = Halves ? N : N / 2;
  const int each = p.half / kPairs, line = p.heads * each;
  const int64_t count = p.tokens * line;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t token = i / line, b = token / p.length, l = token % p.length;
    const int in_line = static_cast<int>(i % line), h = in_line / each, pair = in_line % each * kPairs;
    const T* x = p.x + b * p.x_stride[0] + l * p.x_stride[1] + h * p.x_stride[2];
    T* y = p.y + b * p.y_stride[0] + l * p.y_stride[1] + h * p.y_stride[2];
    float cos[kPairs], sin[kPairs];
    load_shared_row<kPairs>(p.cos + l * p.cos_stride + pair, cos);
    load_shared_row<kPairs>(p.sin + l * p.sin_stride + pair, sin);
#pragma unroll
    for (int k = 0; k < kPairs; ++k) sin[k] *= p.sign;
    if constexpr (Halves) {
      const auto u = load<T, N>(x + pair), v = load<T, N>(x + pair + p.half);
      float first[N], second[N];
#pragma unroll
      for (int k = 0; k < N; ++k) {
        first[k] = u.get(k) * cos[k] - v.get(k) * sin[k];
        second[k] = u.get(k) * sin[k] + v.get(k) * cos[k];
      }
      store(y + pair, first);
      store(y + pair + p.half, second);
    } else {
      const auto u = load<T, N>(x + 2 * pair);
      float out[N];
#pragma unroll
      for (int k = 0; k < N; k += 2) {
        out[k] = u.get(k) * cos[k / 2] - u.get(k + 1) * sin[k / 2];
        out[k + 1] = u.get(k) * sin[k / 2] + u.get(k + 1) * cos[k / 2];
      }
      store(y + 2 * pair, out);
    }
  }
}

// Rotates adjacent pairs with any alignment, value by value.
template <class T>
__global__ void __launch_bounds__(256) rope_any_kernel(const Params<T> p) {
  const int64_t line = static_cast<int64_t>(p.heads) * p.half, count = p.tokens * line;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t token = i / line, b = token / p.length, l = token % p.length, h = i % line / p.half,
                  pair = i % p.half;
    const T* x = p.x + b * p.x_stride[0] + l * p.x_stride[1] + h * p.x_stride[2] + 2 * pair;
    T* y = p.y + b * p.y_stride[0] + l * p.y_stride[1] + h * p.y_stride[2] + 2 * pair;
    const float u = as_float(x[0]), v = as_float(x[1]);
    const float co = p.cos[l * p.cos_stride + pair], si = p.sign * p.sin[l * p.sin_stride + pair];
    y[0] = from_float<T>(u * co - v * si), y[1] = from_float<T>(u * si + v * co);
  }
}

void run(const char* op, const RopeArgs& a, float sign, Stream& stream) {
  cuda::dispatch_float(op, a.x.dtype, [&]<class T>() {
    constexpr int kValues = kPack<T>;
    Params<T> p{static_cast<const T*>(a.x.data), static_cast<T*>(a.y.data)};
    for (int i = 0; i < 3; ++i) p.x_stride[i] = a.x.strides[i], p.y_stride[i] = a.y.strides[i];
    p.cos = static_cast<const float*>(a.cos.data), p.sin = static_cast<const float*>(a.sin.data);
    p.cos_stride = a.cos.strides[0], p.sin_stride = a.sin.strides[0];
    p.length = a.x.dims[1], p.tokens = a.x.dims[0] * p.length;
    p.heads = static_cast<int>(a.x.dims[2]), p.half = static_cast<int>(a.x.dims[3] / 2);
    p.sign = sign;
    const int64_t values = a.x.numel();
    if (values == 0) return;
    const bool halves = a.pairs == RopePairs::halves;
    const bool fits = cuda::fits_packs(kValues, {&a.x, &a.y}) && p.half % kValues == 0 &&
                      cuda::fits_packs(4, {&a.cos, &a.sin});
    const auto grid = [&](int each) {
      return cuda::persistent_grid(stream, cuda::blocks_for(values / each, 256), 32);
    };
    if (fits && halves)
      cuda::launch(op, rope_kernel<T, kValues, true>, {grid(2 * kValues), 256}, stream, p);
    else if (fits)
      cuda::launch(op, rope_kernel<T, kValues, false>, {grid(kValues), 256}, stream, p);
    else if (halves)
      cuda::launch(op, rope_kernel<T, 1, true>, {grid(2), 256}, stream, p);
    else
      cuda::launch(op, rope_any_kernel<T>, {grid(2), 256}, stream, p);
  });
}

}  // namespace

void rope_cuda(const RopeArgs& a, Stream& stream) { run("rope", a, 1, stream); }

void rope_backward_cuda(const RopeBackwardArgs& a, Stream& stream) {
  run("rope_backward", {.x = a.dy, .cos = a.cos, .sin = a.sin, .pairs = a.pairs, .y = a.dx}, -1, stream);
}

}  // namespace tachy::ops
