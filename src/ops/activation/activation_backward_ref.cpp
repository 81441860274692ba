#include "ops/activation/activation_impl.h"
#include "ops/activation_def.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const ActivationBackwardArgs& a, Stream& stream) {
  const Store *x = a.x.as<Store>(), *dy = a.dy.as<Store>();
  Store* dx = a.dx.as<Store>();
  parallel_ranges(stream, a.x.numel(), 4096, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      dx[i] = static_cast<Store>(Real(dy[i]) * activate_slope(Real(x[i]), a.kind));
  });
}

}  // namespace

void activation_backward_ref(const ActivationBackwardArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void activation_backward_working(const ActivationBackwardArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
