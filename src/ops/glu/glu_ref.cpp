#include "ops/activation_def.h"
#include "ops/glu/glu_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Real>
void define(const GluArgs& args, Stream& stream) {
  const int64_t m = args.a.dim(0), c = args.a.dim(1);
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float *a = row_ptr(args.a, i), *b = row_ptr(args.b, i);
      float* y = args.y.as<float>() + i * args.y.stride(0);
      for (int64_t j = 0; j < c; ++j) y[j] = static_cast<float>(activate(Real(a[j]), args.kind) * Real(b[j]));
    }
  });
}

}  // namespace

void glu_ref(const GluArgs& args, Stream& stream) { define<double>(args, stream); }
void glu_working(const GluArgs& args, Stream& stream) { define<float>(args, stream); }

}  // namespace tachy::ops
