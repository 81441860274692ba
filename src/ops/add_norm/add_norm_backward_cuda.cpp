#include "cuda/row_norm_backward.h"
#include "ops/add_norm/add_norm_impl.h"

namespace tachy::ops {

void add_norm_backward_cuda(const AddNormBackwardArgs& a, Stream& stream) {
  cuda::row_norm_backward("add_norm_backward",
                          {.x = a.sum,
                           .dy = a.dy,
                           .dx = a.dx,
                           .dsum = a.dsum,
                           .weight = a.weight,
                           .dweight = a.dweight,
                           .dbias = a.dbias,
                           .eps = a.eps,
                           .centred = a.kind == NormKind::layer},
                          stream);
}

}  // namespace tachy::ops
