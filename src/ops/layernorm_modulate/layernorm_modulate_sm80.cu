// Takes one pass, with one row in registers (device/row_norm.cuh).
#include "cuda/row_norm.h"
#include "ops/layernorm_modulate/layernorm_modulate.h"

namespace tachy::ops {

void layernorm_modulate_cuda(const LayerNormModulateArgs& a, Stream& stream) {
  cuda::dispatch_pair("layernorm_modulate", a.x.dtype, a.y.dtype, [&]<class X, class Y>() {
    cuda::dispatch_weight<X, Y>(a.weight, a.bias, [&]<class W>() {
      device::RowNormParams<X, X, Y, W> p{};
      p.x = cuda::data_of<X>(a.x), p.x_stride = a.x.strides[0];
      p.y = cuda::data_of<Y>(a.y), p.y_stride = a.y.strides[0];
      p.weight = cuda::data_of<W>(a.weight), p.bias = cuda::data_of<W>(a.bias);
      p.scale = cuda::data_of<float>(a.scale), p.scale_stride = cuda::stride_of(a.scale);
      p.shift = cuda::data_of<float>(a.shift), p.shift_stride = cuda::stride_of(a.shift);
      p.row = a.scale.defined() ? cuda::data_of<int32_t>(a.row) : nullptr;
      p.rows = a.x.dims[0], p.c = static_cast<int>(a.x.dims[1]), p.eps = a.eps;
      const bool fits =
          cuda::fits_packs(device::kPack<X, Y>, {&a.x, &a.y, &a.weight, &a.bias, &a.scale, &a.shift});
      cuda::launch_row_norm<device::RowNorm::layer, false, device::Act::none>("layernorm_modulate", p, fits,
                                                                              stream);
    });
  });
}

}  // namespace tachy::ops
