#include <cmath>

#include "ops/layernorm_modulate/layernorm_modulate_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Real>
void define(const LayerNormModulateArgs& a, Stream& stream) {
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  const float* w = a.weight.defined() ? a.weight.as<float>() : nullptr;
  const float* b = a.bias.defined() ? a.bias.as<float>() : nullptr;
  const int32_t* row = a.row.defined() && a.scale.defined() ? a.row.as<int32_t>() : nullptr;
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float* x = a.x.as<float>() + i * a.x.stride(0);
      float* y = a.y.as<float>() + i * a.y.stride(0);
      const float* scale = row_ptr(a.scale, row ? row[i] : 0);
      const float* shift = row_ptr(a.shift, row ? row[i] : 0);
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
        y[j] = static_cast<float>(n);
      }
    }
  });
}

}  // namespace

void layernorm_modulate_ref(const LayerNormModulateArgs& args, Stream& stream) {
  define<double>(args, stream);
}
void layernorm_modulate_working(const LayerNormModulateArgs& args, Stream& stream) {
  define<float>(args, stream);
}

}  // namespace tachy::ops
