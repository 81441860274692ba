// A thread takes one pack of columns of two neighbouring rows, which mostly share the gate. It does not loop
// over the rows: many short blocks keep more loads in flight (4.3 TB/s on an H200, where a loop over four
// rows at a time, with a grid that fits the GPU, reached 3.9).
//   block (x columns, y rows):  grid.x covers the columns, grid.y the rows
#include "cuda/row_norm.h"
#include "ops/gated_residual/gated_residual.h"

namespace tachy::ops {
namespace {

using namespace device;

template <class X, class U>
struct Params {
  const X* x;
  const U* u;
  X* y;
  const float* gate;
  const int32_t* row;
  int64_t x_stride, u_stride, y_stride, gate_stride, rows;
  int packs;
  bool streaming;
};

template <class X, class U, int N, int Ahead>
__global__ void __launch_bounds__(512) gated_residual_kernel(const Params<X, U> p) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= p.packs) return;
  const int64_t step = static_cast<int64_t>(gridDim.y) * blockDim.y * Ahead;
  for (int64_t r = (static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y) * Ahead; r < p.rows;
       r += step) {
    Pack<X, N> x[Ahead];
    Pack<U, N> u[Ahead];
#pragma unroll
    for (int k = 0; k < Ahead; ++k) {
      if (r + k >= p.rows) continue;
      x[k] = load<X, N>(p.x + (r + k) * p.x_stride + at * N);
      u[k] = load<U, N>(p.u + (r + k) * p.u_stride + at * N);
    }
    float gate[N];
#pragma unroll
    for (int i = 0; i < N; ++i) gate[i] = 1;
    int64_t held = -1;  // the row of the table whose gate is in the registers
#pragma unroll
    for (int k = 0; k < Ahead; ++k) {
      if (r + k >= p.rows) continue;
      const int64_t part = p.row ? p.row[r + k] : 0;
      if (p.gate && part != held)
        load_shared_row<N>(p.gate + part * p.gate_stride + at * N, gate), held = part;
      float v[N];
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] = fmaf(gate[i], u[k].get(i), x[k].get(i));
      store(p.y + (r + k) * p.y_stride + at * N, v, p.streaming);
    }
  }
}

template <class X, class U, int N>
void run(Params<X, U> p, int64_t c, const Stream& stream) {
  p.packs = static_cast<int>(c / N);
  p.streaming = cuda::streams(stream, p.rows * c * static_cast<int64_t>(sizeof(X)));
  const cuda::ColumnShape shape(p.packs, p.rows, 2);
  cuda::launch("gated_residual", gated_residual_kernel<X, U, N, 2>, {shape.grid, shape.block}, stream, p);
}

}  // namespace

void gated_residual_cuda(const GatedResidualArgs& a, Stream& stream) {
  const char* op = "gated_residual";
  if (a.x.numel() == 0) return;
  require(a.x.dtype == a.y.dtype, "{}: expected x and y of one dtype", op);
  cuda::dispatch_pair(op, a.x.dtype, a.u.dtype, [&]<class X, class U>() {
    Params<X, U> p{cuda::data_of<X>(a.x),
                   cuda::data_of<U>(a.u),
                   cuda::data_of<X>(a.y),
                   cuda::data_of<float>(a.gate),
                   a.gate.defined() ? cuda::data_of<int32_t>(a.row) : nullptr,
                   a.x.strides[0],
                   a.u.strides[0],
                   a.y.strides[0],
                   cuda::stride_of(a.gate),
                   a.x.dims[0],
                   0,
                   false};
    if (cuda::fits_packs(kPack<X, U>, {&a.x, &a.u, &a.y, &a.gate}))
      run<X, U, kPack<X, U>>(p, a.x.dims[1], stream);
    else
      run<X, U, 1>(p, a.x.dims[1], stream);
  });
}

}  // namespace tachy::ops
