// Takes one pass, with one row in registers (device/row_norm.cuh).
#include "cuda/row_norm.h"
#include "ops/rmsnorm/rmsnorm.h"

namespace tachy::ops {

void rmsnorm_cuda(const RmsNormArgs& a, Stream& stream) {
  cuda::dispatch_pair("rmsnorm", a.x.dtype, a.y.dtype, [&]<class X, class Y>() {
    cuda::dispatch_weight<X, Y>(a.weight, {}, [&]<class W>() {
      device::RowNormParams<X, X, Y, W> p{};
      p.x = cuda::data_of<X>(a.x), p.x_stride = a.x.strides[0];
      p.y = cuda::data_of<Y>(a.y), p.y_stride = a.y.strides[0];
      p.weight = cuda::data_of<W>(a.weight);
      p.scale = cuda::data_of<float>(a.scale), p.scale_stride = cuda::stride_of(a.scale);
      p.shift = cuda::data_of<float>(a.shift), p.shift_stride = cuda::stride_of(a.shift);
      p.row = a.scale.defined() ? cuda::data_of<int32_t>(a.row) : nullptr;
      p.rows = a.x.dims[0], p.c = static_cast<int>(a.x.dims[1]), p.eps = a.eps;
      p.round_twice = a.round_twice && sizeof(Y) == 2;
      const bool fits = cuda::fits_packs(device::kPack<X, Y>, {&a.x, &a.y, &a.weight, &a.scale, &a.shift});
      cuda::launch_row_norm<device::RowNorm::rms, false, device::Act::none>("rmsnorm", p, fits, stream);
    });
  });
}

}  // namespace tachy::ops
