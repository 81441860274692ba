#include "cuda/row_norm_backward.h"
#include "ops/layernorm_modulate/layernorm_modulate_impl.h"

namespace tachy::ops {

void layernorm_modulate_backward_cuda(const LayerNormModulateBackwardArgs& a, Stream& stream) {
  cuda::row_norm_backward("layernorm_modulate_backward",
                          {.x = a.x,
                           .dy = a.dy,
                           .dx = a.dx,
                           .weight = a.weight,
                           .bias = a.bias,
                           .scale = a.scale,
                           .row = a.row,
                           .dweight = a.dweight,
                           .dbias = a.dbias,
                           .dscale = a.dscale,
                           .dshift = a.dshift,
                           .eps = a.eps,
                           .centred = true},
                          stream);
}

}  // namespace tachy::ops
