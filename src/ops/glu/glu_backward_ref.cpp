#include "ops/activation_def.h"
#include "ops/glu/glu_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const GluBackwardArgs& args, Stream& stream) {
  const int64_t m = args.a.dim(0), c = args.a.dim(1);
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store *a = row_of<Store>(args.a, i), *b = row_of<Store>(args.b, i),
                  *dy = row_of<Store>(args.dy, i);
      Store *da = row_of<Store>(args.da, i), *db = row_of<Store>(args.db, i);
      for (int64_t j = 0; j < c; ++j) {
        da[j] = static_cast<Store>(Real(dy[j]) * Real(b[j]) * activate_slope(Real(a[j]), args.kind));
        db[j] = static_cast<Store>(Real(dy[j]) * activate(Real(a[j]), args.kind));
      }
    }
  });
}

}  // namespace

void glu_backward_ref(const GluBackwardArgs& args, Stream& stream) {
  with_store(args.a, [&]<class Store>() { define<Store, double>(args, stream); });
}
void glu_backward_working(const GluBackwardArgs& args, Stream& stream) { define<float, float>(args, stream); }

}  // namespace tachy::ops
