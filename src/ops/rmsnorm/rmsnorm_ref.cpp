#include <cmath>

#include "ops/op_helpers.h"
#include "ops/rmsnorm/rmsnorm_impl.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const RmsNormArgs& a, Stream& stream) {
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  const Store* w = row_of<Store>(a.weight, 0);
  const int32_t* row = a.row.defined() && a.scale.defined() ? a.row.as<int32_t>() : nullptr;
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store* x = row_of<Store>(a.x, i);
      Store* y = row_of<Store>(a.y, i);
      const Store* scale = row_of<Store>(a.scale, row ? row[i] : 0);
      const Store* shift = row_of<Store>(a.shift, row ? row[i] : 0);
      Real sum = 0;
      for (int64_t j = 0; j < c; ++j) sum += Real(x[j]) * Real(x[j]);
      const Real r = Real(1) / std::sqrt(sum / Real(c) + Real(a.eps));
      for (int64_t j = 0; j < c; ++j) {
        Real n = Real(x[j]) * r * Real(w ? w[j] : 1.0f);
        if (scale) n = n * (Real(1) + Real(scale[j])) + Real(shift[j]);
        y[j] = static_cast<Store>(n);
      }
    }
  });
}

}  // namespace

void rmsnorm_ref(const RmsNormArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void rmsnorm_working(const RmsNormArgs& args, Stream& stream) { define<float, float>(args, stream); }

}  // namespace tachy::ops
