#include <algorithm>

#include "ops/activation_def.h"
#include "ops/channel_norm/channel_norm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Real>
void define(const ChannelNormArgs& a, Stream& stream) {
  const int64_t p = a.x.dim(0), c = a.x.dim(1);
  const float* gamma = a.gamma.as<float>();
  const Activation kind = a.silu ? Activation::silu : Activation::none;
  parallel_ranges(stream, p, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float* x = a.x.as<float>() + i * c;
      float* y = a.y.as<float>() + i * c;
      Real sum = 0;
      for (int64_t j = 0; j < c; ++j) sum += Real(x[j]) * Real(x[j]);
      const Real factor = std::sqrt(Real(c)) / std::max(std::sqrt(sum), Real(1e-12f));
      for (int64_t j = 0; j < c; ++j)
        y[j] = static_cast<float>(activate(Real(x[j]) * factor * Real(gamma[j]), kind));
    }
  });
}

}  // namespace

void channel_norm_ref(const ChannelNormArgs& args, Stream& stream) { define<double>(args, stream); }
void channel_norm_working(const ChannelNormArgs& args, Stream& stream) { define<float>(args, stream); }

}  // namespace tachy::ops
