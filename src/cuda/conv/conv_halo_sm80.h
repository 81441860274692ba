// Convolutions of 3x3 kernels by mma.sync that share one copy of x among the taps; conv_sm80 hands work over
// to them.
#pragma once

#include "device/conv_shape.h"
#include "tensor/stream.h"

namespace tachy::device {
struct Conv80Params;
}

namespace tachy::cuda {

// The channel norm of the sums, with silu if requested, goes to `normed`. While a run is planned, memory has no
// addresses.
struct HaloNorm {
  bool wanted = false;
  const float* gamma = nullptr;
  void* normed = nullptr;
  bool silu = false;
};

// Computes the convolution and returns true, or returns false and does nothing where the kernel does not take
// it. `dtype` is bf16 or f16. With a norm, y may be null. Whether it takes a convolution does not depend on
// the number of frames, because the order of its sums is not that of the other kernels.
bool conv_halo_sm80(const device::Conv80Params& params, const HaloNorm& norm, DType dtype,
                    const Stream& stream);
bool conv_halo_sm80_takes(const device::Conv80Params& params, const HaloNorm& norm, const Stream& stream);

}  // namespace tachy::cuda
