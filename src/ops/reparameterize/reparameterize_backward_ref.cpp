#include <cmath>

#include "ops/op_helpers.h"
#include "ops/reparameterize/reparameterize_impl.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const ReparameterizeBackwardArgs& a, Stream& stream) {
  const int64_t m = a.logvar.dim(0), p = a.logvar.dim(1);
  const Store* factor = row_of<Store>(a.factor, 0);
  parallel_ranges(stream, m, rows_per_tile(p), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store *logvar = row_of<Store>(a.logvar, i), *noise = row_of<Store>(a.noise, i);
      const Store* dz = row_of<Store>(a.dz, i);
      Store *dmean = row_of<Store>(a.dmean, i), *dlogvar = row_of<Store>(a.dlogvar, i);
      for (int64_t j = 0; j < p; ++j) {
        const Real v = logvar[j], g = Real(dz[j]) * (factor ? Real(factor[i]) : Real(1));
        const bool clamped = v < Real(kLowestLogvar) || v > Real(kHighestLogvar);
        dmean[j] = static_cast<Store>(g);
        dlogvar[j] =
            clamped ? Store(0) : static_cast<Store>(g * Real(noise[j]) * Real(0.5) * std::exp(Real(0.5) * v));
      }
    }
  });
}

}  // namespace

void reparameterize_backward_ref(const ReparameterizeBackwardArgs& args, Stream& stream) {
  with_store(args.logvar, [&]<class Store>() { define<Store, double>(args, stream); });
}
void reparameterize_backward_working(const ReparameterizeBackwardArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
