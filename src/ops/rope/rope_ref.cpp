#include "ops/rope/rope_definition.h"
#include "ops/rope/rope_impl.h"

namespace tachy::ops {

void rope_ref(const RopeArgs& a, Stream& stream) {
  with_store(a.x, [&]<class Store>() { rotate<Store, double>(a.x, a.cos, a.sin, a.pairs, 1, a.y, stream); });
}
void rope_working(const RopeArgs& a, Stream& stream) {
  rotate<float, float>(a.x, a.cos, a.sin, a.pairs, 1, a.y, stream);
}

}  // namespace tachy::ops
