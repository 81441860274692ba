// 2-D convolution of channels-last frames with explicit padding on each side (the VAE's downsampler pads
// right and bottom only), + bias [+ residual].
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct Conv2dArgs {
  Tensor x;       // [F, H, W, Ci] f32 (on a GPU f16 or bf16, too), contiguous
  Tensor packed;  // result of pack_conv2d_weight, u8
  int64_t kernel_h = 3, kernel_w = 3;
  int64_t stride = 1;
  int64_t pad_top = 1, pad_left = 1, pad_bottom = 1, pad_right = 1;
  Tensor bias;      // optional [Co] f32
  Tensor residual;  // optional [F, Ho, Wo, Co], like x, may alias y
  Tensor y;         // [F, Ho, Wo, Co], like x, contiguous
};

void conv2d(const Conv2dArgs& args, Stream& stream);

// `compute` is that of the stream, which must be the same at packing and at use.
int64_t packed_conv2d_bytes(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w,
                            Compute compute = Compute::f32);
// The same for the device where the stream's ops run, because a GPU's weights have their own layout and dtype
// (stream.precision.activation) and lie on the device.
int64_t packed_conv2d_bytes(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w, const Stream& stream);
// Packs a weight on the host, [Co, Ci, kh, kw] (any float dtype, contiguous), as u8.
void pack_conv2d_weight(const Tensor& weight, const Tensor& packed, Stream& stream);

}  // namespace tachy::ops
