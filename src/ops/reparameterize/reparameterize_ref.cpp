#include <cmath>

#include "ops/op_helpers.h"
#include "ops/reparameterize/reparameterize_impl.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const ReparameterizeArgs& a, Stream& stream) {
  const int64_t m = a.mean.dim(0), p = a.mean.dim(1);
  const Store *center = row_of<Store>(a.center, 0), *factor = row_of<Store>(a.factor, 0);
  parallel_ranges(stream, m, rows_per_tile(p), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store *mean = row_of<Store>(a.mean, i), *logvar = row_of<Store>(a.logvar, i);
      const Store* noise = row_of<Store>(a.noise, i);
      Store* z = row_of<Store>(a.z, i);
      for (int64_t j = 0; j < p; ++j) {
        Real v = logvar[j];  // written so that NaN stays NaN
        if (v < Real(kLowestLogvar)) v = kLowestLogvar;
        if (v > Real(kHighestLogvar)) v = kHighestLogvar;
        Real draw = Real(mean[j]) + std::exp(Real(0.5) * v) * Real(noise[j]);
        if (center) draw = (draw - Real(center[i])) * Real(factor[i]);
        z[j] = static_cast<Store>(draw);
      }
    }
  });
}

}  // namespace

void reparameterize_ref(const ReparameterizeArgs& args, Stream& stream) {
  with_store(args.mean, [&]<class Store>() { define<Store, double>(args, stream); });
}
void reparameterize_working(const ReparameterizeArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
