// du = gate[row]·dy, dx = dy, dgate[r] = Σ dy·u over the rows that use r. A thread keeps one pack of columns
// and goes down every `slots`-th pair of rows, so that it has the sums of its columns in registers. Whenever
// the rows change to another row of the table, it adds the sums to its slot of the old one (with a single row
// this happens once). A second kernel adds up the slots in their order. Both orders depend only on the shape
// and the GPU. Without dgate nothing is summed, and a thread takes two rows as in the forward pass.
#include "cuda/row_norm.h"
#include "ops/gated_residual/gated_residual_backward.h"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kAhead = 2;

template <class X, class U>
struct Params {
  const X* dy;
  const U* u;
  X* dx;
  U* du;
  const float* gate;
  const int32_t* row;
  float* partial;  // [tables, slots, C]; null without dgate
  int64_t dy_stride, u_stride, dx_stride, du_stride, gate_stride, rows, c;
  int packs, slots, tables;
  bool streaming;
};

// Moves this thread's sums to its slot for one row of the table. With `more`, they are added to what the slot
// already contains.
template <int N>
__device__ __forceinline__ void flush(float* to, bool more, float (&sum)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = more ? to[i] + sum[i] : sum[i], sum[i] = 0;
}

template <class X, class U, int N>
__global__ void __launch_bounds__(256) gated_residual_backward_kernel(const Params<X, U> p) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  const int64_t slot = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  if (at >= p.packs || slot >= p.slots) return;
  const auto own = [&](int64_t table) { return p.partial + (table * p.slots + slot) * p.c + at * N; };
  float gate[N], sum[N];
#pragma unroll
  for (int i = 0; i < N; ++i) gate[i] = 1, sum[i] = 0;
  int64_t table = 0, held = -1;  // the rows of the table whose sums, and whose gate, are in the registers
  for (int64_t r = slot * kAhead; r < p.rows; r += static_cast<int64_t>(p.slots) * kAhead) {
    Pack<X, N> dy[kAhead];
    Pack<U, N> u[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (r + k >= p.rows) continue;
      dy[k] = load<X, N>(p.dy + (r + k) * p.dy_stride + at * N);
      if (p.partial) u[k] = load<U, N>(p.u + (r + k) * p.u_stride + at * N);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      if (r + k >= p.rows) continue;
      const int64_t part = p.row ? p.row[r + k] : 0;
      // A row that names none of the table's rows has no gate, so its branch gets no gradient.
      const bool inside = part >= 0 && part < p.tables;
      if (p.gate && part != held) {
        if (inside)
          load_shared_row<N>(p.gate + part * p.gate_stride + at * N, gate);
        else
#pragma unroll
          for (int i = 0; i < N; ++i) gate[i] = 0;
        held = part;
      }
      if (p.partial && inside) {
        if (part != table) flush<N>(own(table), true, sum), table = part;
#pragma unroll
        for (int i = 0; i < N; ++i) sum[i] = fmaf(dy[k].get(i), u[k].get(i), sum[i]);
      }
      float v[N];
      if (p.du) {
#pragma unroll
        for (int i = 0; i < N; ++i) v[i] = gate[i] * dy[k].get(i);
        store(p.du + (r + k) * p.du_stride + at * N, v, p.streaming);
      }
      if (p.dx) store(p.dx + (r + k) * p.dx_stride + at * N, dy[k], p.streaming);
    }
  }
  if (p.partial) flush<N>(own(table), p.row != nullptr, sum);
}

// grid [C / 32, tables], 32 x 32 threads. A block adds up 32 channels, with 32 threads for the slots of each.
__global__ void __launch_bounds__(1024)
    gated_residual_sums_kernel(const float* partial, float* dgate, int64_t stride, int64_t c, int slots,
                               int tables) {
  __shared__ float sums[32][33];
  const int64_t j = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  for (int64_t table = blockIdx.y; table < tables; table += gridDim.y) {
    float sum = 0;
    if (j < c)
#pragma unroll 4
      for (int slot = threadIdx.y; slot < slots; slot += 32) sum += partial[(table * slots + slot) * c + j];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
#pragma unroll
    for (int step = 16; step; step >>= 1) {
      if (threadIdx.y < step) sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + step][threadIdx.x];
      __syncthreads();
    }
    if (threadIdx.y == 0 && j < c) dgate[table * stride + j] = sums[0][threadIdx.x];
    __syncthreads();
  }
}

// The number of slots into which the rows are divided for summing. There are enough threads to fill the GPU,
// with at least 16 rows each (the sums are then a few percent of the data read), and few enough sums if the
// table is long.
int slots_for(int64_t rows, int64_t packs, int64_t tables, const Stream& stream) {
  const int64_t fill = int64_t{stream.gpu->info().multiprocessors} * 2048 / std::max<int64_t>(1, packs);
  const int64_t most = std::min({fill, rows / 16, 4096 / tables});
  return static_cast<int>(std::clamp<int64_t>(most, 1, 8192));
}

template <class X, class U, int N>
void run(Params<X, U> p, const Stream& stream) {
  p.packs = static_cast<int>(p.c / N);
  const cuda::ColumnShape shape(p.packs, p.rows, kAhead);
  dim3 grid = shape.grid;
  if (p.partial)
    grid.y = cuda::blocks_for(p.slots, shape.block.y);
  else
    p.slots = static_cast<int>(grid.y * shape.block.y);
  cuda::launch("gated_residual_backward", gated_residual_backward_kernel<X, U, N>, {grid, shape.block},
               stream, p);
}

}  // namespace

void gated_residual_backward_cuda(const GatedResidualBackwardArgs& a, Stream& stream) {
  const char* op = "gated_residual_backward";
  const int64_t m = a.dy.dims[0], c = a.dy.dims[1];
  if (c == 0 || (m == 0 && !a.dgate.defined())) return;
  const int64_t tables = a.gate.defined() ? a.gate.dims[0] : 1;
  require(tables <= std::numeric_limits<int>::max(), "{}: expected less than 2^31 rows of gate, got {}", op,
          tables);
  const DType branch = a.u.defined() ? a.u.dtype : a.du.defined() ? a.du.dtype : a.dy.dtype;
  cuda::dispatch_pair(op, a.dy.dtype, branch, [&]<class X, class U>() {
    constexpr int kValues = kPack<X, U>;
    const int slots = slots_for(m, (c + kValues - 1) / kValues, tables, stream);
    const ArenaScope scope(*stream.arena);
    float* partial = nullptr;
    const size_t bytes = sizeof(float) * static_cast<size_t>(slots) * static_cast<size_t>(tables * c);
    if (a.dgate.defined()) partial = static_cast<float*>(stream.arena->bytes(bytes));
    if (stream.measuring()) return;
    Params<X, U> p{cuda::data_of<X>(a.dy), cuda::data_of<U>(a.u), cuda::data_of<X>(a.dx),
                   cuda::data_of<U>(a.du), cuda::data_of<float>(a.gate)};
    if (a.gate.defined() && tables > 1) p.row = cuda::data_of<int32_t>(a.row);
    p.partial = partial;
    p.dy_stride = a.dy.strides[0], p.u_stride = cuda::stride_of(a.u), p.dx_stride = cuda::stride_of(a.dx);
    p.du_stride = cuda::stride_of(a.du), p.gate_stride = cuda::stride_of(a.gate);
    p.rows = m, p.c = c, p.slots = slots, p.tables = static_cast<int>(tables);
    p.streaming = cuda::streams(stream, m * c * static_cast<int64_t>(sizeof(X) + sizeof(U)));
    if (partial && tables > 1)
      cuda::check_cuda(cudaMemsetAsync(partial, 0, bytes, cuda::stream_of(stream)), op);
    if (cuda::fits_packs(kValues, {&a.dy, &a.u, &a.dx, &a.du, &a.gate}))
      run<X, U, kValues>(p, stream);
    else
      run<X, U, 1>(p, stream);
    if (partial)
      cuda::launch(op, gated_residual_sums_kernel,
                   {dim3(cuda::blocks_for(c, 32), static_cast<unsigned>(std::min<int64_t>(tables, 65535))),
                    dim3(32, 32)},
                   stream, partial, cuda::data_of<float>(a.dgate), a.dgate.strides[0], c, slots, p.tables);
  });
}

}  // namespace tachy::ops
