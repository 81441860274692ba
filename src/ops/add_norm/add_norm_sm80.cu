// The sum stays in the registers that the norm reads: device/row_norm.cuh.
#include "cuda/row_norm.h"
#include "ops/add_norm/add_norm.h"

namespace tachy::ops {

void add_norm_cuda(const AddNormArgs& a, Stream& stream) {
  cuda::dispatch_pair("add_norm", a.x.dtype, a.u.dtype, [&]<class X, class U>() {
    if constexpr (sizeof(X) == 2 && sizeof(U) == 4) {
      fail(ErrorCode::unsupported, "add_norm: expected u of x's dtype, got f32 beside 16-bit x");
    } else {
      cuda::dispatch_weight<X, U>(a.weight, a.bias, [&]<class W>() {
        device::RowNormParams<X, U, U, W> p{};
        p.x = cuda::data_of<X>(a.x), p.x_stride = a.x.strides[0];
        p.u = cuda::data_of<U>(a.u), p.u_stride = a.u.strides[0];
        p.sum = cuda::data_of<X>(a.sum), p.sum_stride = cuda::stride_of(a.sum);
        p.y = cuda::data_of<U>(a.y), p.y_stride = a.y.strides[0];
        p.weight = cuda::data_of<W>(a.weight), p.bias = cuda::data_of<W>(a.bias);
        p.gate = cuda::data_of<float>(a.gate), p.gate_stride = cuda::stride_of(a.gate);
        p.scale = cuda::data_of<float>(a.scale), p.scale_stride = cuda::stride_of(a.scale);
        p.shift = cuda::data_of<float>(a.shift), p.shift_stride = cuda::stride_of(a.shift);
        p.row = a.scale.defined() || a.gate.defined() ? cuda::data_of<int32_t>(a.row) : nullptr;
        p.rows = a.x.dims[0], p.c = static_cast<int>(a.x.dims[1]), p.eps = a.eps;
        p.round_twice = a.round_twice && sizeof(U) == 2;
        const bool fits = cuda::fits_packs(
            device::kPack<X, U>, {&a.x, &a.u, &a.sum, &a.y, &a.weight, &a.bias, &a.gate, &a.scale, &a.shift});
        if (a.kind == NormKind::rms)
          cuda::launch_row_norm<device::RowNorm::rms, true, device::Act::none>("add_norm", p, fits, stream);
        else
          cuda::launch_row_norm<device::RowNorm::layer, true, device::Act::none>("add_norm", p, fits, stream);
      });
    }
  });
}

}  // namespace tachy::ops
