#include "ops/gated_residual/gated_residual_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Real>
void define(const GatedResidualArgs& a, Stream& stream) {
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  const int32_t* row = a.row.defined() && a.gate.defined() ? a.row.as<int32_t>() : nullptr;
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float *x = row_ptr(a.x, i), *u = row_ptr(a.u, i), *gate = row_ptr(a.gate, row ? row[i] : 0);
      float* y = a.y.as<float>() + i * a.y.stride(0);
      for (int64_t j = 0; j < c; ++j)
        y[j] = static_cast<float>(Real(x[j]) + Real(gate ? gate[j] : 1.0f) * Real(u[j]));
    }
  });
}

}  // namespace

void gated_residual_ref(const GatedResidualArgs& args, Stream& stream) { define<double>(args, stream); }
void gated_residual_working(const GatedResidualArgs& args, Stream& stream) { define<float>(args, stream); }

}  // namespace tachy::ops
