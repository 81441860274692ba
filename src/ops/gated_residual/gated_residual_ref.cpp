#include "ops/gated_residual/gated_residual_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const GatedResidualArgs& a, Stream& stream) {
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  const int32_t* row = a.row.defined() && a.gate.defined() ? a.row.as<int32_t>() : nullptr;
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store *x = row_of<Store>(a.x, i), *u = row_of<Store>(a.u, i),
                  *gate = row_of<Store>(a.gate, row ? row[i] : 0);
      Store* y = row_of<Store>(a.y, i);
      for (int64_t j = 0; j < c; ++j)
        y[j] = static_cast<Store>(Real(x[j]) + Real(gate ? gate[j] : Store(1)) * Real(u[j]));
    }
  });
}

}  // namespace

void gated_residual_ref(const GatedResidualArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void gated_residual_working(const GatedResidualArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
