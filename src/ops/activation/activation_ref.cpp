#include "ops/activation/activation_impl.h"
#include "ops/activation_def.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Real>
void define(const ActivationArgs& a, Stream& stream) {
  const float* x = a.x.as<float>();
  float* y = a.y.as<float>();
  parallel_ranges(stream, a.x.numel(), 4096, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) y[i] = static_cast<float>(activate(Real(x[i]), a.kind));
  });
}

}  // namespace

void activation_ref(const ActivationArgs& args, Stream& stream) { define<double>(args, stream); }
void activation_working(const ActivationArgs& args, Stream& stream) { define<float>(args, stream); }

}  // namespace tachy::ops
