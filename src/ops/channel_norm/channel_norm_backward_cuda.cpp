#include "cuda/row_norm_backward.h"
#include "ops/channel_norm/channel_norm_impl.h"

namespace tachy::ops {

void channel_norm_backward_cuda(const ChannelNormBackwardArgs& a, Stream& stream) {
  cuda::row_norm_backward("channel_norm_backward",
                          {.x = a.x,
                           .dy = a.dy,
                           .dx = a.dx,
                           .weight = a.gamma,
                           .dweight = a.dgamma,
                           .channel = true,
                           .silu = a.silu},
                          stream);
}

}  // namespace tachy::ops
