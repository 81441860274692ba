#include "cuda/row_norm_backward.h"
#include "ops/rmsnorm/rmsnorm_impl.h"

namespace tachy::ops {

void rmsnorm_backward_cuda(const RmsNormBackwardArgs& a, Stream& stream) {
  cuda::row_norm_backward("rmsnorm_backward",
                          {.x = a.x,
                           .dy = a.dy,
                           .dx = a.dx,
                           .weight = a.weight,
                           .scale = a.scale,
                           .row = a.row,
                           .dweight = a.dweight,
                           .dscale = a.dscale,
                           .dshift = a.dshift,
                           .eps = a.eps},
                          stream);
}

}  // namespace tachy::ops
