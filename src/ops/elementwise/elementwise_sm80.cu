// The flat ops: each thread takes a vector of neighbouring values. Every rounding is written out (no
// contraction into FMA), so that results equal the definition's to the bit.
#include <cuda_fp8.h>

#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "ops/elementwise/elementwise_args.h"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kThreads = 256;

template <class T, int N>
struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) Vec {
  T v[N];
};

__device__ __forceinline__ float wide(float v) { return v; }
__device__ __forceinline__ float wide(f16 v) { return as_float(v); }
__device__ __forceinline__ float wide(bf16 v) { return as_float(v); }
__device__ __forceinline__ float wide(double v) { return __double2float_rn(v); }
__device__ __forceinline__ float wide(__nv_fp8_e4m3 v) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(v.__x, __NV_E4M3)));
}
__device__ __forceinline__ float wide(__nv_fp8_e5m2 v) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(v.__x, __NV_E5M2)));
}

// Calls body(index of the first value, number of values) for vectors of N over [0, count).
template <int N, class Body>
__device__ __forceinline__ void for_vectors(int64_t count, Body&& body) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (first < count) body(first, count - first < N ? static_cast<int>(count - first) : N);
}

struct Terms {
  const float* x[8];
  float coefficient[8];
};

template <int N>
__global__ void __launch_bounds__(kThreads)
    lincomb_kernel(const Terms terms, int count, float* out, int64_t n) {
  for_vectors<N>(n, [&](int64_t first, int values) {
    float sum[N] = {};
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      if (t >= count) break;
      Vec<float, N> x;
      if (values == N) {
        x = *reinterpret_cast<const Vec<float, N>*>(terms.x[t] + first);
      } else {
        for (int i = 0; i < values; ++i) x.v[i] = terms.x[t][first + i];
      }
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float product = __fmul_rn(terms.coefficient[t], x.v[i]);
        sum[i] = t == 0 ? product : __fadd_rn(sum[i], product);
      }
    }
    for (int i = 0; i < values; ++i) out[first + i] = sum[i];
  });
}

template <class X, class Y, int N>
__global__ void __launch_bounds__(kThreads) widen_kernel(const X* x, Y* y, int64_t n) {
  for_vectors<N>(n, [&](int64_t first, int values) {
    if (values < N) {
      for (int i = 0; i < values; ++i) y[first + i] = from_float<Y>(wide(x[first + i]));
      return;
    }
    const auto in = *reinterpret_cast<const Vec<X, N>*>(x + first);
    Vec<Y, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out.v[i] = from_float<Y>(wide(in.v[i]));
    *reinterpret_cast<Vec<Y, N>*>(y + first) = out;
  });
}

template <class X, int N>
__global__ void __launch_bounds__(kThreads) to_rgb8_kernel(const X* x, uint8_t* y, int64_t n) {
  for_vectors<N>(n, [&](int64_t first, int values) {
    const auto pixel = [](float v) {
      const float half = __fmul_rn(__fadd_rn(v, 1.0f), 0.5f);
      const float unit = half > 0.0f ? (half < 1.0f ? half : 1.0f) : 0.0f;  // NaN is black
      return static_cast<uint8_t>(rintf(__fmul_rn(unit, 255.0f)));
    };
    if (values < N) {
      for (int i = 0; i < values; ++i) y[first + i] = pixel(as_float(x[first + i]));
      return;
    }
    const auto in = *reinterpret_cast<const Vec<X, N>*>(x + first);
    Vec<uint8_t, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out.v[i] = pixel(as_float(in.v[i]));
    *reinterpret_cast<Vec<uint8_t, N>*>(y + first) = out;
  });
}

template <class X, int N>
__global__ void __launch_bounds__(kThreads) clamp_kernel(X* x, float lo, float hi, int64_t n) {
  const auto clamped = [&](X x) {
    const float v = as_float(x);
    return from_float<X>(v < lo ? lo : v > hi ? hi : v);  // NaN stays NaN
  };
  for_vectors<N>(n, [&](int64_t first, int values) {
    if (values < N) {
      for (int i = 0; i < values; ++i) x[first + i] = clamped(x[first + i]);
      return;
    }
    auto v = *reinterpret_cast<Vec<X, N>*>(x + first);
#pragma unroll
    for (int i = 0; i < N; ++i) v.v[i] = clamped(v.v[i]);
    *reinterpret_cast<Vec<X, N>*>(x + first) = v;
  });
}

template <class X, int N>
__global__ void __launch_bounds__(kThreads) all_finite_kernel(const X* x, int64_t n, int* bad) {
  bool found = false;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x * N;
  for (int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N; first < n;
       first += stride) {
    if (first + N <= n) {
      const auto in = *reinterpret_cast<const Vec<X, N>*>(x + first);
#pragma unroll
      for (int i = 0; i < N; ++i) found = found || !isfinite(as_float(in.v[i]));
    } else {
      for (int64_t i = first; i < n; ++i) found = found || !isfinite(as_float(x[i]));
    }
  }
  if (found) *bad = 1;
}

bool aligned(const Tensor& t, int values) {
  return reinterpret_cast<uintptr_t>(t.data) %
             static_cast<uintptr_t>(std::min(16, values * dtype_size(t.dtype))) ==
         0;
}

cuda::LaunchShape flat(int64_t count, int each) {
  return {cuda::blocks_for(count, static_cast<int64_t>(kThreads) * each), kThreads};
}

template <class X>
void widen_from(const WidenArgs& a, Stream& stream) {
  cuda::dispatch_float("widen", a.y.dtype, [&]<class Y>() {
    constexpr int kValues = 16 / static_cast<int>(sizeof(X) > sizeof(Y) ? sizeof(X) : sizeof(Y));
    const auto* x = static_cast<const X*>(a.x.data);
    auto* y = static_cast<Y*>(a.y.data);
    const int64_t n = a.x.numel();
    if (aligned(a.x, kValues) && aligned(a.y, kValues))
      cuda::launch("widen", widen_kernel<X, Y, kValues>, flat(n, kValues), stream, x, y, n);
    else
      cuda::launch("widen", widen_kernel<X, Y, 1>, flat(n, 1), stream, x, y, n);
  });
}

}  // namespace

void lincomb_cuda(const LincombArgs& a, Stream& stream) {
  const int64_t n = a.out.numel();
  if (n == 0) return;
  Terms terms{};
  bool fits = aligned(a.out, 4);
  for (int t = 0; t < a.count; ++t) {
    terms.x[t] = static_cast<const float*>(a.terms[static_cast<size_t>(t)].x.data);
    terms.coefficient[t] = a.terms[static_cast<size_t>(t)].coefficient;
    fits = fits && aligned(a.terms[static_cast<size_t>(t)].x, 4);
  }
  auto* out = static_cast<float*>(a.out.data);
  if (fits)
    cuda::launch("lincomb", lincomb_kernel<4>, flat(n, 4), stream, terms, a.count, out, n);
  else
    cuda::launch("lincomb", lincomb_kernel<1>, flat(n, 1), stream, terms, a.count, out, n);
}

void widen_cuda(const WidenArgs& a, Stream& stream) {
  if (a.x.numel() == 0) return;
  switch (a.x.dtype) {
    case DType::f32:
      return widen_from<float>(a, stream);
    case DType::f16:
      return widen_from<f16>(a, stream);
    case DType::bf16:
      return widen_from<bf16>(a, stream);
    case DType::f8_e4m3:
      return widen_from<__nv_fp8_e4m3>(a, stream);
    case DType::f8_e5m2:
      return widen_from<__nv_fp8_e5m2>(a, stream);
    case DType::f64:
      return widen_from<double>(a, stream);
    default:
      fail(ErrorCode::invalid_argument, "widen: expected a float dtype");
  }
}

void to_rgb8_cuda(const ToRgb8Args& a, Stream& stream) {
  const int64_t n = a.x.numel();
  if (n == 0) return;
  cuda::dispatch_float("to_rgb8", a.x.dtype, [&]<class X>() {
    const auto* x = static_cast<const X*>(a.x.data);
    auto* y = static_cast<uint8_t*>(a.y.data);
    if (aligned(a.x, 4) && aligned(a.y, 4))
      cuda::launch("to_rgb8", to_rgb8_kernel<X, 4>, flat(n, 4), stream, x, y, n);
    else
      cuda::launch("to_rgb8", to_rgb8_kernel<X, 1>, flat(n, 1), stream, x, y, n);
  });
}

void clamp_cuda(const ClampArgs& a, Stream& stream) {
  const int64_t n = a.x.numel();
  if (n == 0) return;
  cuda::dispatch_float("clamp", a.x.dtype, [&]<class X>() {
    constexpr int kValues = 16 / static_cast<int>(sizeof(X));
    auto* x = static_cast<X*>(a.x.data);
    if (aligned(a.x, kValues))
      cuda::launch("clamp", clamp_kernel<X, kValues>, flat(n, kValues), stream, x, a.lo, a.hi, n);
    else
      cuda::launch("clamp", clamp_kernel<X, 1>, flat(n, 1), stream, x, a.lo, a.hi, n);
  });
}

namespace {

void queue_search(const char* op, const Tensor& x, int* bad, Stream& stream) {
  const int64_t n = x.numel();
  if (n == 0) return;
  cuda::dispatch_float(op, x.dtype, [&]<class X>() {
    constexpr int kValues = 16 / static_cast<int>(sizeof(X));
    const auto* values = static_cast<const X*>(x.data);
    const unsigned grid = cuda::persistent_grid(stream, cuda::blocks_for(n, kThreads * kValues), 16);
    if (aligned(x, kValues))
      cuda::launch(op, all_finite_kernel<X, kValues>, {grid, kThreads}, stream, values, n, bad);
    else
      cuda::launch(op, all_finite_kernel<X, 1>, {grid, kThreads}, stream, values, n, bad);
  });
}

}  // namespace

// all_finite is the only op that waits, because its result is needed on the host: it reads one flag once.
void all_finite_cuda(const AllFiniteArgs& a, Stream& stream) {
  const ArenaScope scope(*stream.arena);
  auto* bad = static_cast<int*>(stream.arena->bytes(sizeof(int)));
  if (stream.measuring()) return;
  stream.gpu->fill(bad, 0, sizeof(int));
  queue_search("all_finite", a.x, bad, stream);
  int found = 0;
  stream.gpu->download(&found, bad, sizeof(int));
  *a.result = found == 0;
}

void mark_nonfinite_cuda(const MarkNonfiniteArgs& a, Stream& stream) {
  queue_search("mark_nonfinite", a.x, static_cast<int*>(a.flag.data), stream);
}

}  // namespace tachy::ops
