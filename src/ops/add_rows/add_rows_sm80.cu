// One thread per value: these are a few MB per step, read from the cache.
#include "cuda/dispatch.h"
#include "ops/add_rows/add_rows.h"

namespace tachy::ops {
namespace {

__global__ void add_rows_kernel(const float* table, int64_t table_stride, const float* rows,
                                int64_t row_stride, float* y, int64_t row_count, int64_t columns,
                                int64_t count) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i >= count) return;
  const int64_t column = i % columns, row = i / columns;
  y[i] = table[row / row_count * table_stride + column] + rows[row % row_count * row_stride + column];
}

}  // namespace

void add_rows_cuda(const AddRowsArgs& a, Stream& stream) {
  const int64_t count = a.y.numel();
  if (count == 0) return;
  cuda::launch("add_rows", add_rows_kernel, {dim3(cuda::blocks_for(count, 256)), dim3(256)}, stream,
               static_cast<const float*>(a.table.data), a.table.strides[0],
               static_cast<const float*>(a.rows.data), a.rows.strides[0], static_cast<float*>(a.y.data),
               a.rows.dims[0], a.table.dims[1], count);
}

}  // namespace tachy::ops
