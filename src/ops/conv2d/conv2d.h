// 2-D convolution of channels-last frames with explicit padding on each side (the VAE's downsampler pads
// right and bottom only), + bias [+ residual].
#pragma once

#include "tensor/memory.h"

namespace tachy::ops {

struct Conv2dArgs {
  Tensor x;       // [F, H, W, Ci] f32, contiguous
  Tensor packed;  // what pack_conv2d_weight made, u8
  int64_t kernel_h = 3, kernel_w = 3;
  int64_t stride = 1;
  int64_t pad_top = 1, pad_left = 1, pad_bottom = 1, pad_right = 1;
  Tensor bias;      // optional [Co] f32
  Tensor residual;  // optional [F, Ho, Wo, Co] f32, may alias y
  Tensor y;         // [F, Ho, Wo, Co] f32, contiguous
};

void conv2d(const Conv2dArgs& args, Stream& stream);

// compute: the stream's, at packing and at use.
int64_t packed_conv2d_bytes(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w,
                            Compute compute = Compute::f32);
// weight [Co, Ci, kh, kw] (any float dtype, contiguous) → packed u8.
void pack_conv2d_weight(const Tensor& weight, const Tensor& packed, Stream& stream);

}  // namespace tachy::ops
