#include <cmath>

#include "ops/layernorm_modulate/layernorm_modulate_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const LayerNormModulateArgs& a, Stream& stream) {
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  const Store* w = row_of<Store>(a.weight, 0);
  const Store* b = row_of<Store>(a.bias, 0);
  const int32_t* row = a.row.defined() && a.scale.defined() ? a.row.as<int32_t>() : nullptr;
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store* x = row_of<Store>(a.x, i);
      Store* y = row_of<Store>(a.y, i);
      const Store* scale = row_of<Store>(a.scale, row ? row[i] : 0);
      const Store* shift = row_of<Store>(a.shift, row ? row[i] : 0);
      Real sum = 0, squares = 0;
      for (int64_t j = 0; j < c; ++j) sum += Real(x[j]);
      const Real mean = sum / Real(c);
      for (int64_t j = 0; j < c; ++j) squares += (Real(x[j]) - mean) * (Real(x[j]) - mean);
      const Real r = Real(1) / std::sqrt(squares / Real(c) + Real(a.eps));
      for (int64_t j = 0; j < c; ++j) {
        Real n = (Real(x[j]) - mean) * r;
        if (w) n *= Real(w[j]);
        if (b) n += Real(b[j]);
        if (scale) n = n * (Real(1) + Real(scale[j])) + Real(shift[j]);
        y[j] = static_cast<Store>(n);
      }
    }
  });
}

}  // namespace

void layernorm_modulate_ref(const LayerNormModulateArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void layernorm_modulate_working(const LayerNormModulateArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
