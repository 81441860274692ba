// y = act(a)·b. Rows of a and b may be halves of the same row. A thread takes a pack of columns of two
// neighbouring rows.
#include "cuda/row_norm.h"
#include "device/activation.cuh"
#include "ops/activation_dispatch.cuh"
#include "ops/glu/glu.h"

namespace tachy::ops {
namespace {

using namespace device;

template <class T>
struct Params {
  const T *a, *b;
  T* y;
  int64_t a_stride, b_stride, y_stride, rows;
  int packs;
  bool streaming;
};

template <class T, int N, Act kAct, int Ahead>
__global__ void __launch_bounds__(512) glu_kernel(const Params<T> p) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= p.packs) return;
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.y * Ahead;
  for (int64_t r = (static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y) * Ahead; r < p.rows;
       r += step) {
    Pack<T, N> a[Ahead], b[Ahead];
#pragma unroll
    for (int k = 0; k < Ahead; ++k) {
      if (r + k >= p.rows) continue;
      a[k] = load<T, N>(p.a + (r + k) * p.a_stride + at * N);
      b[k] = load<T, N>(p.b + (r + k) * p.b_stride + at * N);
    }
#pragma unroll
    for (int k = 0; k < Ahead; ++k) {
      if (r + k >= p.rows) continue;
      float v[N];
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = activation_of<T>(a[k].get(i), kAct) * b[k].get(i);
      store(p.y + (r + k) * p.y_stride + at * N, v, p.streaming);
    }
  }
}

template <class T, int N>
void run(const GluArgs& args, const Stream& stream) {
  Params<T> p{cuda::data_of<T>(args.a),
              cuda::data_of<T>(args.b),
              cuda::data_of<T>(args.y),
              args.a.strides[0],
              args.b.strides[0],
              args.y.strides[0],
              args.a.dims[0],
              static_cast<int>(args.a.dims[1] / N),
              cuda::streams(stream, args.y.numel() * static_cast<int64_t>(sizeof(T)))};
  // Contiguous rows are treated as rows of another length.
  if (args.a.contiguous() && args.b.contiguous() && args.y.contiguous() && p.packs < 128) {
    const int64_t all = p.rows * p.packs, packs = 1024;
    if (all % packs == 0)
      p.rows = all / packs, p.packs = packs, p.a_stride = p.b_stride = p.y_stride = packs * N;
  }
  const cuda::ColumnShape shape(p.packs, p.rows, 2);
  const auto with = [&]<Act kAct>() {
    cuda::launch("glu", glu_kernel<T, N, kAct, 2>, {shape.grid, shape.block}, stream, p);
  };
  dispatch_act(args.kind, with);
}

}  // namespace

void glu_cuda(const GluArgs& args, Stream& stream) {
  if (args.a.numel() == 0) return;
  cuda::dispatch_float("glu", args.a.dtype, [&]<class T>() {
    if (cuda::fits_packs(kPack<T>, {&args.a, &args.b, &args.y}))
      run<T, kPack<T>>(args, stream);
    else
      run<T, 1>(args, stream);
  });
}

}  // namespace tachy::ops
