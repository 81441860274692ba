// Takes rows of 96 to 1,024 channels; 4 to 32 threads share a row (device/row_norm.cuh).
#include "cuda/row_norm.h"
#include "ops/channel_norm/channel_norm.h"

namespace tachy::ops {

void channel_norm_cuda(const ChannelNormArgs& a, Stream& stream) {
  cuda::dispatch_float("channel_norm", a.x.dtype, [&]<class T>() {
    device::RowNormParams<T, T, T> p{};
    p.x = cuda::data_of<T>(a.x), p.y = cuda::data_of<T>(a.y);
    p.x_stride = p.y_stride = a.x.dims[1];
    p.weight = cuda::data_of<float>(a.gamma);
    p.rows = a.x.dims[0], p.c = static_cast<int>(a.x.dims[1]);
    const bool fits = cuda::fits_packs(device::kPack<T>, {&a.x, &a.y, &a.gamma});
    if (a.silu)
      cuda::launch_row_norm<device::RowNorm::channel, false, device::Act::silu>("channel_norm", p, fits,
                                                                                stream);
    else
      cuda::launch_row_norm<device::RowNorm::channel, false, device::Act::none>("channel_norm", p, fits,
                                                                                stream);
  });
}

}  // namespace tachy::ops
