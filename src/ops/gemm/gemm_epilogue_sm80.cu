// The epilogue that cuBLASLt does not have: y = residual + gate[row]·(act(p + bias)·multiply) over some rows
// of a float32 product p [rows, N]. Absent terms are left out. It is memory bound: each thread takes 4
// neighbouring values (16 bytes of the product), or one if rows are not aligned to that.
#include "cuda/dispatch.h"
#include "device/numeric.cuh"
#include "device/vec.cuh"
#include "ops/gemm/gemm_cuda.h"

namespace tachy::ops {
namespace {

using device::Act;

struct Rows {  // the first row to process, and the step between rows in elements
  const void* data;
  int64_t stride;
};

struct Epilogue {
  const float* product;
  Rows bias, multiply, gate, residual;
  const int32_t* row = nullptr;
  void* y = nullptr;
  int64_t y_stride = 0, rows = 0;
  int columns = 0;
  Act act = Act::none;
};

template <class T, int N>
__device__ __forceinline__ void read(const Rows& r, int64_t row, int column, float (&v)[N]) {
  const auto pack = device::load<T, N>(static_cast<const T*>(r.data) + row * r.stride + column);
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = pack.get(i);
}

template <class Y, class M, int N>
__global__ void __launch_bounds__(256) epilogue_kernel(const Epilogue e) {
  const int column = (blockIdx.x * blockDim.x + threadIdx.x) * N;
  if (column >= e.columns) return;
  float bias[N] = {};
  if (e.bias.data) read<Y, N>(e.bias, 0, column, bias);
  for (int64_t i = blockIdx.y; i < e.rows; i += gridDim.y) {
    float v[N], other[N];
    read<float, N>({e.product, e.columns}, i, column, v);
#pragma unroll
    for (int c = 0; c < N; ++c) v[c] = device::activate<(sizeof(Y) == 2)>(v[c] + bias[c], e.act);
    if (e.multiply.data) {
      read<M, N>(e.multiply, i, column, other);
#pragma unroll
      for (int c = 0; c < N; ++c) v[c] *= other[c];
    }
    if (e.gate.data) {
      device::load_shared_row<N>(
          static_cast<const float*>(e.gate.data) + (e.row ? e.row[i] : 0) * e.gate.stride + column, other);
#pragma unroll
      for (int c = 0; c < N; ++c) v[c] *= other[c];
    }
    if (e.residual.data) {
      read<Y, N>(e.residual, i, column, other);
#pragma unroll
      for (int c = 0; c < N; ++c) v[c] += other[c];
    }
    device::store(static_cast<Y*>(e.y) + i * e.y_stride + column, v);
  }
}

Rows rows_from(const Tensor& t, int64_t first) {
  if (!t.defined()) return {nullptr, 0};
  return {static_cast<const char*>(t.data) + first * t.strides[0] * dtype_size(t.dtype), t.strides[0]};
}

}  // namespace

void gemm_epilogue_cuda(const GemmArgs& a, const Tensor& product, int64_t first, int64_t rows,
                        Stream& stream) {
  Epilogue e{.product = static_cast<const float*>(product.data),
             .bias = {a.bias.defined() ? a.bias.data : nullptr, 0},
             .multiply = rows_from(a.multiply, first),
             .gate = rows_from(a.gate, 0),
             .residual = rows_from(a.residual, first)};
  e.row = a.row.defined() ? static_cast<const int32_t*>(a.row.data) + first : nullptr;
  e.y = static_cast<char*>(a.y.data) + first * a.y.strides[0] * dtype_size(a.y.dtype);
  e.y_stride = a.y.strides[0], e.rows = rows, e.columns = static_cast<int>(a.weight.dims[0]);
  e.act = static_cast<Act>(a.act);
  const bool packs = cuda::fits_packs(4, {&product, &a.bias, &a.multiply, &a.gate, &a.residual, &a.y});
  const int each = packs ? 4 : 1;
  const unsigned threads = e.columns / each >= 256 ? 256 : 64;
  const cuda::LaunchShape shape{dim3(cuda::blocks_for(e.columns, static_cast<int64_t>(threads) * each),
                                     static_cast<unsigned>(std::min<int64_t>(rows, 65535))),
                                dim3(threads)};
  const DType multiply = a.multiply.defined() ? a.multiply.dtype : a.y.dtype;
  cuda::dispatch_pair("gemm", a.y.dtype, multiply, [&]<class Y, class M>() {
    cuda::launch("gemm's epilogue", packs ? epilogue_kernel<Y, M, 4> : epilogue_kernel<Y, M, 1>, shape,
                 stream, e);
  });
}

}  // namespace tachy::ops
