#include <cmath>

#include "ops/add_norm/add_norm_impl.h"
#include "ops/op_helpers.h"
#include "ops/row_codes.h"

namespace tachy::ops {
namespace {

// The sum is first rounded to the tensors' dtype, because the stored value is the one that is normalised.
template <class Store, class Real>
void define(const AddNormArgs& a, Stream& stream) {
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  const Store *w = row_of<Store>(a.weight, 0), *bias = row_of<Store>(a.bias, 0);
  const bool modulated = a.row.defined() && (a.gate.defined() || a.scale.defined());
  const int32_t* row = modulated ? a.row.as<int32_t>() : nullptr;
  const bool codes = a.y.dtype == DType::f8_e4m3;
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    std::vector<Store> own(static_cast<size_t>(codes ? 2 * c : 0));  // h and y of one row
    for (int64_t i = begin; i < end; ++i) {
      const Store *x = row_of<Store>(a.x, i), *u = row_of<Store>(a.u, i);
      Store* const y = codes ? own.data() + c : row_of<Store>(a.y, i);
      Store* const h = a.sum.defined() ? row_of<Store>(a.sum, i) : codes ? own.data() : y;
      const int64_t part = row ? row[i] : 0;
      const Store *gate = row_of<Store>(a.gate, part), *scale = row_of<Store>(a.scale, part),
                  *shift = row_of<Store>(a.shift, part);
      for (int64_t j = 0; j < c; ++j)
        h[j] = gate ? static_cast<Store>(Real(x[j]) + Real(gate[j]) * Real(u[j])) : x[j] + u[j];
      Real sum = 0, squares = 0;
      for (int64_t j = 0; j < c; ++j) sum += Real(h[j]);
      const Real mean = a.kind == NormKind::layer ? sum / Real(c) : Real(0);
      for (int64_t j = 0; j < c; ++j) squares += (Real(h[j]) - mean) * (Real(h[j]) - mean);
      const Real r = Real(1) / std::sqrt(squares / Real(c) + Real(a.eps));
      for (int64_t j = 0; j < c; ++j) {
        Real n = (Real(h[j]) - mean) * r * (w ? Real(w[j]) : Real(1));
        if (bias) n += Real(bias[j]);
        if (scale) n = n * (Real(1) + Real(scale[j])) + Real(shift[j]);
        y[j] = static_cast<Store>(n);
      }
      if (codes) a.y_scale.as<float>()[i] = row_codes(y, c, row_of<uint8_t>(a.y, i));
    }
  });
}

}  // namespace

void add_norm_ref(const AddNormArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void add_norm_working(const AddNormArgs& args, Stream& stream) { define<float, float>(args, stream); }

}  // namespace tachy::ops
