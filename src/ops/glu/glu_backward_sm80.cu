// da = dy·b·act'(a), db = dy·act(a). As in the forward pass, a thread keeps its
// columns and goes down the rows.
#include "cuda/row_norm.h"
#include "device/activation.cuh"
#include "ops/glu/glu_backward.h"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kAhead = 2;

template <class T>
struct Params {
  const T *a, *b, *dy;
  T *da, *db;
  int64_t a_stride, b_stride, dy_stride, da_stride, db_stride, rows;
  int packs;
  Act kind;
};

template <class T, int N>
__global__ void __launch_bounds__(256) glu_backward_kernel(const Params<T> p) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= p.packs) return;
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.y;
  for (int64_t r = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; r < p.rows;
       r += kAhead * step) {
    Pack<T, N> a[kAhead], b[kAhead], dy[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int64_t row = r + k * step;
      if (row >= p.rows) continue;
      a[k] = load<T, N>(p.a + row * p.a_stride + at * N);
      b[k] = load<T, N>(p.b + row * p.b_stride + at * N);
      dy[k] = load<T, N>(p.dy + row * p.dy_stride + at * N);
    }
    with_act(p.kind, [&](auto act) {
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int64_t row = r + k * step;
        if (row >= p.rows) continue;
        float da[N], db[N];
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const float x = a[k].get(i), up = dy[k].get(i);
          da[i] = up * b[k].get(i) * slope_of<T>(x, act.value);
          db[i] = up * activation_of<T>(x, act.value);
        }
        store(p.da + row * p.da_stride + at * N, da);
        store(p.db + row * p.db_stride + at * N, db);
      }
    });
  }
}

}  // namespace

void glu_backward_cuda(const GluBackwardArgs& args, Stream& stream) {
  if (args.a.numel() == 0) return;
  cuda::dispatch_float("glu_backward", args.a.dtype, [&]<class T>() {
    const auto with = [&]<int N>() {
      const Params<T> p{cuda::data_of<T>(args.a),
                        cuda::data_of<T>(args.b),
                        cuda::data_of<T>(args.dy),
                        cuda::data_of<T>(args.da),
                        cuda::data_of<T>(args.db),
                        args.a.strides[0],
                        args.b.strides[0],
                        args.dy.strides[0],
                        args.da.strides[0],
                        args.db.strides[0],
                        args.a.dims[0],
                        static_cast<int>(args.a.dims[1] / N),
                        static_cast<Act>(args.kind)};
      const cuda::ColumnShape shape(p.packs, p.rows, kAhead);
      cuda::launch("glu_backward", glu_backward_kernel<T, N>, {shape.grid, shape.block}, stream, p);
    };
    if (cuda::fits_packs(kPack<T>, {&args.a, &args.b, &args.dy, &args.da, &args.db}))
      with.template operator()<kPack<T>>();
    else
      with.template operator()<1>();
  });
}

}  // namespace tachy::ops
