// Nearest-exact 2x upsampling followed by a 3x3 convolution (zero padding 1), without the upsampled image:
// each of the four output phases is a 2x2 convolution of the small input, whose taps are sums of the 3x3's
// (4/9 of the work).
#pragma once

#include "tensor/stream.h"

namespace tachy::ops {

struct UpsampleConv2dArgs {
  Tensor x;       // [F, H, W, Ci] f32 (on a GPU f16 or bf16, too), contiguous
  Tensor packed;  // result of pack_upsample_conv2d_weight, u8
  Tensor bias;    // optional [Co] f32
  Tensor y;       // [F, 2H, 2W, Co], like x, contiguous
};

void upsample_conv2d(const UpsampleConv2dArgs& args, Stream& stream);

// `compute` is that of the stream, which must be the same at packing and at use.
int64_t packed_upsample_conv2d_bytes(int64_t co, int64_t ci, Compute compute = Compute::f32);
// The same for the device where the stream's ops run, because a GPU's weights have their own layout and dtype
// (stream.precision.activation) and lie on the device.
int64_t packed_upsample_conv2d_bytes(int64_t co, int64_t ci, const Stream& stream);
// Packs a weight on the host, [Co, Ci, 3, 3] (any float dtype, contiguous), as u8.
void pack_upsample_conv2d_weight(const Tensor& weight, const Tensor& packed, Stream& stream);

}  // namespace tachy::ops
