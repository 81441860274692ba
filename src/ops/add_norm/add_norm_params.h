// The parameters that both kernels of add_norm share, which are all but y. nvcc accepts this header.
#pragma once

#include "cuda/row_norm.h"
#include "ops/add_norm/add_norm.h"

namespace tachy::ops {

template <class X, class U, class W>
device::RowNormParams<X, U, U, W> add_norm_params(const AddNormArgs& a) {
  device::RowNormParams<X, U, U, W> p{};
  p.x = cuda::data_of<X>(a.x), p.x_stride = a.x.strides[0];
  p.u = cuda::data_of<U>(a.u), p.u_stride = a.u.strides[0];
  p.sum = cuda::data_of<X>(a.sum), p.sum_stride = cuda::stride_of(a.sum);
  p.weight = cuda::data_of<W>(a.weight), p.bias = cuda::data_of<W>(a.bias);
  p.gate = cuda::data_of<float>(a.gate), p.gate_stride = cuda::stride_of(a.gate);
  p.scale = cuda::data_of<float>(a.scale), p.scale_stride = cuda::stride_of(a.scale);
  p.shift = cuda::data_of<float>(a.shift), p.shift_stride = cuda::stride_of(a.shift);
  p.row = a.scale.defined() || a.gate.defined() ? cuda::data_of<int32_t>(a.row) : nullptr;
  p.rows = a.x.dims[0], p.c = static_cast<int>(a.x.dims[1]), p.eps = a.eps;
  return p;
}

}  // namespace tachy::ops
