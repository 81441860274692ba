#include "ops/activation_def.h"
#include "ops/glu/glu_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const GluArgs& args, Stream& stream) {
  const int64_t m = args.a.dim(0), c = args.a.dim(1);
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store *a = row_of<Store>(args.a, i), *b = row_of<Store>(args.b, i);
      Store* y = row_of<Store>(args.y, i);
      for (int64_t j = 0; j < c; ++j) y[j] = static_cast<Store>(activate(Real(a[j]), args.kind) * Real(b[j]));
    }
  });
}

}  // namespace

void glu_ref(const GluArgs& args, Stream& stream) {
  with_store(args.a, [&]<class Store>() { define<Store, double>(args, stream); });
}
void glu_working(const GluArgs& args, Stream& stream) { define<float, float>(args, stream); }

}  // namespace tachy::ops
