// The sum stays in the registers from which the norm reads it (device/row_norm.cuh).
#include "ops/add_norm/add_norm_params.h"

namespace tachy::ops {

void add_norm_cuda(const AddNormArgs& a, Stream& stream) {
  cuda::dispatch_pair("add_norm", a.x.dtype, a.u.dtype, [&]<class X, class U>() {
    if constexpr (sizeof(X) == 2 && sizeof(U) == 4) {
      fail(ErrorCode::unsupported, "add_norm: expected u of x's dtype, got f32 beside 16-bit x");
    } else {
      cuda::dispatch_weight<X, U>(a.weight, a.bias, [&]<class W>() {
        device::RowNormParams<X, U, U, W> p = add_norm_params<X, U, W>(a);
        p.y = cuda::data_of<U>(a.y), p.y_stride = a.y.strides[0];
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
