#include "ops/add_norm/add_norm_impl.h"
#include "ops/norm_backward_def.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const AddNormBackwardArgs& a, Stream& stream) {
  const int64_t m = a.sum.dim(0), c = a.sum.dim(1);
  const bool centred = a.kind == NormKind::layer;
  ArenaScope scope(*stream.arena);
  auto* rows =
      static_cast<NormRow<Real>*>(stream.arena->bytes(static_cast<size_t>(m) * sizeof(NormRow<Real>)));
  if (stream.measuring()) return;
  const Store* w = row_of<Store>(a.weight, 0);
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store *h = row_of<Store>(a.sum, i), *dy = row_of<Store>(a.dy, i),
                  *dsum = row_of<Store>(a.dsum, i);
      Store* dx = row_of<Store>(a.dx, i);
      rows[i] = norm_row<Store, Real>(h, c, Real(a.eps), centred);
      norm_row_backward<Store, Real>(
          h, c, rows[i], centred, [&](int64_t j) { return Real(dy[j]) * (w ? Real(w[j]) : Real(1)); },
          [&](int64_t j, Real value) {
            dx[j] = static_cast<Store>(value + (dsum ? Real(dsum[j]) : Real(0)));
          });
    }
  });
  parallel_ranges(stream, c, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t j = begin; j < end; ++j) {
      Real weight = 0, bias = 0;
      for (int64_t i = 0; i < m; ++i) {
        const Real dy = row_of<Store>(a.dy, i)[j];
        weight += dy * rows[i].normed(Real(row_of<Store>(a.sum, i)[j]));
        bias += dy;
      }
      if (a.dweight.defined()) row_of<Store>(a.dweight, 0)[j] = static_cast<Store>(weight);
      if (a.dbias.defined()) row_of<Store>(a.dbias, 0)[j] = static_cast<Store>(bias);
    }
  });
}

}  // namespace

void add_norm_backward_ref(const AddNormBackwardArgs& args, Stream& stream) {
  with_store(args.sum, [&]<class Store>() { define<Store, double>(args, stream); });
}
void add_norm_backward_working(const AddNormBackwardArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
