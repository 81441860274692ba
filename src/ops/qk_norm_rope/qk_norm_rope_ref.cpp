#include <cmath>

#include "ops/op_helpers.h"
#include "ops/qk_norm_rope/qk_norm_rope_impl.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const QkNormRopeArgs& a, Stream& stream) {
  const int64_t norms = norms_of(a), length = a.x.dim(1), c = a.x.dim(2) / norms, d = a.x.dim(2) / a.heads;
  const Store* w = row_of<Store>(a.weight, 0);
  parallel_ranges(stream, a.x.dim(0) * length * norms, rows_per_tile(c),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t b = i / norms / length, l = i / norms % length, first = i % norms * c;
                      const Store* x = a.x.as<Store>() + b * a.x.stride(0) + l * a.x.stride(1) + first;
                      Store* y = a.y.as<Store>() + b * a.y.stride(0) + l * a.y.stride(1) + first;
                      const Store *cos = row_of<Store>(a.cos, l), *sin = row_of<Store>(a.sin, l);
                      Real sum = 0;
                      for (int64_t j = 0; j < c; ++j) sum += Real(x[j]) * Real(x[j]);
                      const Real r = Real(a.scale) / std::sqrt(sum / Real(c) + Real(a.eps));
                      const auto normed = [&](int64_t j) { return Real(x[j]) * r * Real(w ? w[j] : 1.0f); };
                      if (!cos) {
                        for (int64_t j = 0; j < c; ++j) y[j] = static_cast<Store>(normed(j));
                        continue;
                      }
                      for (int64_t j = 0; j < c; j += 2) {
                        const Real u = normed(j), v = normed(j + 1), co = cos[j % d / 2], si = sin[j % d / 2];
                        y[j] = static_cast<Store>(u * co - v * si);
                        y[j + 1] = static_cast<Store>(u * si + v * co);
                      }
                    }
                  });
}

template <class Store, class Real>
void define_both(const QkNormRopeArgs& a, Stream& stream) {
  define<Store, Real>(a, stream);
  if (a.x2.defined()) define<Store, Real>(second_of(a), stream);
}

}  // namespace

void qk_norm_rope_ref(const QkNormRopeArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define_both<Store, double>(args, stream); });
}
void qk_norm_rope_working(const QkNormRopeArgs& args, Stream& stream) {
  define_both<float, float>(args, stream);
}

}  // namespace tachy::ops
