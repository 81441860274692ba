#include "ops/modulated_norm_backward_def.h"
#include "ops/rmsnorm/rmsnorm_impl.h"

namespace tachy::ops {
namespace {

ModulatedNormBackward as_norm(const RmsNormBackwardArgs& a) {
  return {.x = a.x,
          .weight = a.weight,
          .scale = a.scale,
          .row = a.row,
          .dy = a.dy,
          .eps = a.eps,
          .dx = a.dx,
          .dweight = a.dweight,
          .dscale = a.dscale,
          .dshift = a.dshift};
}

}  // namespace

void rmsnorm_backward_ref(const RmsNormBackwardArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define_norm_backward<Store, double>(as_norm(args), stream); });
}
void rmsnorm_backward_working(const RmsNormBackwardArgs& args, Stream& stream) {
  define_norm_backward<float, float>(as_norm(args), stream);
}

}  // namespace tachy::ops
