// Convolutions by mma.sync in large tiles, to which conv_sm80 hands work over.
#pragma once

#include "device/conv_shape.h"
#include "tensor/stream.h"

namespace tachy::device {
struct Conv80Params;
}

namespace tachy::cuda {

// Whether addresses and sizes are such that rows are read and written 16 bytes at a time and counted in 32 bits.
bool conv_tile_fits(const device::Conv80Params& params);

// Computes the convolution in the tile that a model of the time finds fastest, and returns true. It returns
// false, and does nothing, where no tile takes the problem or none is expected to be faster than conv_sm80's.
// `dtype` is bf16 or f16. The sums have the same bits as conv_sm80's.
bool conv_tile_sm80(const device::Conv80Params& params, DType dtype, const Stream& stream);

}  // namespace tachy::cuda
