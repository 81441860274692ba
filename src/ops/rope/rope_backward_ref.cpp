#include "ops/rope/rope_definition.h"
#include "ops/rope/rope_impl.h"

namespace tachy::ops {

void rope_backward_ref(const RopeBackwardArgs& a, Stream& stream) {
  with_store(a.dy,
             [&]<class Store>() { rotate<Store, double>(a.dy, a.cos, a.sin, a.pairs, -1, a.dx, stream); });
}
void rope_backward_working(const RopeBackwardArgs& a, Stream& stream) {
  rotate<float, float>(a.dy, a.cos, a.sin, a.pairs, -1, a.dx, stream);
}

}  // namespace tachy::ops
