#include "cuda/row_norm_backward.h"
#include "ops/qk_norm_rope/qk_norm_rope_impl.h"

namespace tachy::ops {

void qk_norm_rope_backward_cuda(const QkNormRopeBackwardArgs& a, Stream& stream) {
  cuda::row_norm_backward("qk_norm_rope_backward",
                          {.x = a.x,
                           .dy = a.dy,
                           .dx = a.dx,
                           .weight = a.weight,
                           .cos = a.cos,
                           .sin = a.sin,
                           .dweight = a.dweight,
                           .heads = a.heads,
                           .eps = a.eps},
                          stream);
}

}  // namespace tachy::ops
