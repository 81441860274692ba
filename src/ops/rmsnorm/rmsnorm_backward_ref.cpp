#include "ops/norm_backward_def.h"
#include "ops/op_helpers.h"
#include "ops/rmsnorm/rmsnorm_impl.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const RmsNormBackwardArgs& a, Stream& stream) {
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  ArenaScope scope(*stream.arena);
  auto* rows =
      static_cast<NormRow<Real>*>(stream.arena->bytes(static_cast<size_t>(m) * sizeof(NormRow<Real>)));
  if (stream.measuring()) return;
  const Store* w = row_of<Store>(a.weight, 0);
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store *x = row_of<Store>(a.x, i), *dy = row_of<Store>(a.dy, i);
      Store* dx = row_of<Store>(a.dx, i);
      rows[i] = norm_row<Store, Real>(x, c, Real(a.eps), false);
      norm_row_backward<Store, Real>(
          x, c, rows[i], false, [&](int64_t j) { return Real(dy[j]) * (w ? Real(w[j]) : Real(1)); },
          [&](int64_t j, Real value) { dx[j] = static_cast<Store>(value); });
    }
  });
  if (!a.dweight.defined()) return;
  parallel_ranges(stream, c, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t j = begin; j < end; ++j) {
      Real sum = 0;
      for (int64_t i = 0; i < m; ++i)
        sum += Real(row_of<Store>(a.dy, i)[j]) * rows[i].normed(Real(row_of<Store>(a.x, i)[j]));
      row_of<Store>(a.dweight, 0)[j] = static_cast<Store>(sum);
    }
  });
}

}  // namespace

void rmsnorm_backward_ref(const RmsNormBackwardArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void rmsnorm_backward_working(const RmsNormBackwardArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
