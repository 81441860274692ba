#include "ops/layernorm_modulate/layernorm_modulate_impl.h"
#include "ops/modulated_norm_backward_def.h"

namespace tachy::ops {
namespace {

ModulatedNormBackward as_norm(const LayerNormModulateBackwardArgs& a) {
  return {.x = a.x,
          .weight = a.weight,
          .bias = a.bias,
          .scale = a.scale,
          .row = a.row,
          .dy = a.dy,
          .eps = a.eps,
          .centred = true,
          .dx = a.dx,
          .dweight = a.dweight,
          .dbias = a.dbias,
          .dscale = a.dscale,
          .dshift = a.dshift};
}

}  // namespace

void layernorm_modulate_backward_ref(const LayerNormModulateBackwardArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define_norm_backward<Store, double>(as_norm(args), stream); });
}
void layernorm_modulate_backward_working(const LayerNormModulateBackwardArgs& args, Stream& stream) {
  define_norm_backward<float, float>(as_norm(args), stream);
}

}  // namespace tachy::ops
