#include "ops/norm_backward_def.h"
#include "ops/op_helpers.h"
#include "ops/qk_norm_rope/qk_norm_rope_impl.h"

namespace tachy::ops {
namespace {

template <class Store>
Store* token(const Tensor& t, int64_t i) {
  return row_of<Store>(t, i / t.dims[1]) + i % t.dims[1] * t.strides[1];
}

// Channel j of ropeᵀ(dy) at token i.
template <class Store, class Real>
Real rotated_back(const QkNormRopeBackwardArgs& a, int64_t i, int64_t j) {
  const Store* dy = token<Store>(a.dy, i);
  if (!a.cos.defined()) return dy[j];
  const int64_t p = j % (a.x.dim(2) / a.heads) / 2, l = i % a.x.dim(1);
  const Real cos = row_of<Store>(a.cos, l)[p], sin = row_of<Store>(a.sin, l)[p];
  return j % 2 == 0 ? Real(dy[j]) * cos + Real(dy[j + 1]) * sin : Real(dy[j]) * cos - Real(dy[j - 1]) * sin;
}

template <class Store, class Real>
void define(const QkNormRopeBackwardArgs& a, Stream& stream) {
  const int64_t m = a.x.dim(0) * a.x.dim(1), c = a.x.dim(2);
  ArenaScope scope(*stream.arena);
  auto* rows =
      static_cast<NormRow<Real>*>(stream.arena->bytes(static_cast<size_t>(m) * sizeof(NormRow<Real>)));
  if (stream.measuring()) return;
  const Store* w = row_of<Store>(a.weight, 0);
  parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store* x = token<Store>(a.x, i);
      Store* dx = token<Store>(a.dx, i);
      rows[i] = norm_row<Store, Real>(x, c, Real(a.eps), false);
      norm_row_backward<Store, Real>(
          x, c, rows[i], false,
          [&](int64_t j) { return rotated_back<Store, Real>(a, i, j) * (w ? Real(w[j]) : Real(1)); },
          [&](int64_t j, Real value) { dx[j] = static_cast<Store>(value); });
    }
  });
  if (!a.dweight.defined()) return;
  parallel_ranges(stream, c, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t j = begin; j < end; ++j) {
      Real sum = 0;
      for (int64_t i = 0; i < m; ++i)
        sum += rotated_back<Store, Real>(a, i, j) * rows[i].normed(Real(token<Store>(a.x, i)[j]));
      row_of<Store>(a.dweight, 0)[j] = static_cast<Store>(sum);
    }
  });
}

}  // namespace

void qk_norm_rope_backward_ref(const QkNormRopeBackwardArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void qk_norm_rope_backward_working(const QkNormRopeBackwardArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
