// Convolutions of 3x3 kernels by mma.sync that share one copy of x among the taps; conv_sm80 hands work over
// to them.
#pragma once

#include "device/conv_shape.h"
#include "tensor/stream.h"

namespace tachy::device {
struct Conv80Params;
}

namespace tachy::cuda {

// Computes the convolution and returns true, or returns false and does nothing where the kernel does not take
// it. `dtype` is bf16 or f16. Whether it takes one does not depend on the number of frames, because the order
// of its sums is not that of the other kernels.
bool conv_halo_sm80(const device::Conv80Params& params, DType dtype, const Stream& stream);

}  // namespace tachy::cuda
