#include <algorithm>

#include "ops/activation_def.h"
#include "ops/channel_norm/channel_norm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const ChannelNormArgs& a, Stream& stream) {
  const int64_t p = a.x.dim(0), c = a.x.dim(1);
  const Store* gamma = a.gamma.as<Store>();
  const Activation kind = a.silu ? Activation::silu : Activation::none;
  parallel_ranges(stream, p, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store* x = a.x.as<Store>() + i * c;
      Real sum = 0;
      for (int64_t j = 0; j < c; ++j) sum += Real(x[j]) * Real(x[j]);
      const Real factor = std::sqrt(Real(c)) / std::max(std::sqrt(sum), Real(1e-12f));
      for (int64_t j = 0; j < c; ++j) {
        const Real v = activate(Real(x[j]) * factor * Real(gamma[j]), kind);
        if (is_code(a.y.dtype))
          static_cast<uint8_t*>(a.y.data)[i * c + j] =
              code_of(static_cast<float>(v / Real(a.y_scale)), a.y.dtype);
        else
          static_cast<Store*>(a.y.data)[i * c + j] = static_cast<Store>(v);
      }
    }
  });
}

}  // namespace

void channel_norm_ref(const ChannelNormArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void channel_norm_working(const ChannelNormArgs& args, Stream& stream) { define<float, float>(args, stream); }

}  // namespace tachy::ops
