#include <cmath>

#include "ops/activation_def.h"
#include "ops/channel_norm/channel_norm_impl.h"
#include "ops/norm_backward_def.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const ChannelNormBackwardArgs& a, Stream& stream) {
  const int64_t p = a.x.dim(0), c = a.x.dim(1);
  ArenaScope scope(*stream.arena);
  auto* rows =
      static_cast<NormRow<Real>*>(stream.arena->bytes(static_cast<size_t>(p) * sizeof(NormRow<Real>)));
  if (stream.measuring()) return;
  const Activation kind = a.silu ? Activation::silu : Activation::none;
  const Store* gamma = row_of<Store>(a.gamma, 0);
  // ∂L/∂(n·gamma) at one value.
  const auto slope = [&](int64_t i, int64_t j) {
    const Real n = rows[i].normed(Real(row_of<Store>(a.x, i)[j]));
    return Real(row_of<Store>(a.dy, i)[j]) * activate_slope(n * Real(gamma[j]), kind);
  };
  parallel_ranges(stream, p, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const Store* x = row_of<Store>(a.x, i);
      Store* dx = row_of<Store>(a.dx, i);
      Real sum = 0;
      for (int64_t j = 0; j < c; ++j) sum += Real(x[j]) * Real(x[j]);
      const Real norm = std::sqrt(sum), lowest = Real(1e-12f);
      rows[i] = {Real(0), std::sqrt(Real(c)) / std::max(norm, lowest)};
      const auto g = [&](int64_t j) { return slope(i, j) * Real(gamma[j]); };
      if (norm < lowest) {
        for (int64_t j = 0; j < c; ++j) dx[j] = static_cast<Store>(rows[i].r * g(j));
        continue;
      }
      norm_row_backward<Store, Real>(x, c, rows[i], false, g,
                                     [&](int64_t j, Real value) { dx[j] = static_cast<Store>(value); });
    }
  });
  if (!a.dgamma.defined()) return;
  parallel_ranges(stream, c, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t j = begin; j < end; ++j) {
      Real sum = 0;
      for (int64_t i = 0; i < p; ++i) sum += slope(i, j) * rows[i].normed(Real(row_of<Store>(a.x, i)[j]));
      row_of<Store>(a.dgamma, 0)[j] = static_cast<Store>(sum);
    }
  });
}

}  // namespace

void channel_norm_backward_ref(const ChannelNormBackwardArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void channel_norm_backward_working(const ChannelNormBackwardArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
