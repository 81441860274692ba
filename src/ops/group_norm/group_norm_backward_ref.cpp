#include <cmath>

#include "ops/activation_def.h"
#include "ops/group_norm/group_norm_impl.h"
#include "ops/norm_backward_def.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const GroupNormBackwardArgs& a, Stream& stream) {
  const int64_t samples = a.x.dim(0), p = a.x.dim(1), c = a.x.dim(2), width = c / a.groups;
  const int64_t count = samples * a.groups;
  ArenaScope scope(*stream.arena);
  auto* groups =
      static_cast<NormRow<Real>*>(stream.arena->bytes(static_cast<size_t>(count) * sizeof(NormRow<Real>)));
  if (stream.measuring()) return;
  const Store *w = row_of<Store>(a.weight, 0), *bias = row_of<Store>(a.bias, 0);
  const Store *x = a.x.as<Store>(), *dy = a.dy.as<Store>();
  // For value `at` of channel k: n, and ∂L/∂(n·weight + bias).
  const auto normed = [&](const NormRow<Real>& group, int64_t at) { return group.normed(Real(x[at])); };
  const auto slope = [&](const NormRow<Real>& group, int64_t at, int64_t k) {
    const Real y = normed(group, at) * (w ? Real(w[k]) : Real(1)) + (bias ? Real(bias[k]) : Real(0));
    return Real(dy[at]) * activate_slope(y, a.act);
  };
  parallel_ranges(stream, count, 1, [&](int64_t i, int64_t, int) {
    const int64_t sample = i / a.groups * p * c, first = i % a.groups * width;
    const auto each = [&](auto&& body) {
      for (int64_t j = 0; j < p; ++j)
        for (int64_t k = first; k < first + width; ++k) body(sample + j * c + k, k);
    };
    Real sum = 0, squares = 0, values = Real(p * width);
    each([&](int64_t at, int64_t) { sum += Real(x[at]); });
    const Real mean = sum / values;
    each([&](int64_t at, int64_t) { squares += (Real(x[at]) - mean) * (Real(x[at]) - mean); });
    groups[i] = {mean, Real(1) / std::sqrt(squares / values + Real(a.eps))};
    const auto g = [&](int64_t at, int64_t k) {
      return slope(groups[i], at, k) * (w ? Real(w[k]) : Real(1));
    };
    Real sum_g = 0, product = 0;
    each([&](int64_t at, int64_t k) {
      sum_g += g(at, k);
      product += g(at, k) * normed(groups[i], at);
    });
    each([&](int64_t at, int64_t k) {
      a.dx.as<Store>()[at] = static_cast<Store>(
          groups[i].r * (g(at, k) - sum_g / values - normed(groups[i], at) * product / values));
    });
  });
  parallel_ranges(stream, c, 1, [&](int64_t k, int64_t, int) {
    Real weight = 0, shift = 0;
    for (int64_t i = 0; i < samples; ++i)
      for (int64_t j = 0; j < p; ++j) {
        const int64_t at = (i * p + j) * c + k;
        const NormRow<Real>& group = groups[i * a.groups + k / width];
        weight += slope(group, at, k) * normed(group, at);
        shift += slope(group, at, k);
      }
    if (a.dweight.defined()) row_of<Store>(a.dweight, 0)[k] = static_cast<Store>(weight);
    if (a.dbias.defined()) row_of<Store>(a.dbias, 0)[k] = static_cast<Store>(shift);
  });
}

}  // namespace

void group_norm_backward_ref(const GroupNormBackwardArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void group_norm_backward_working(const GroupNormBackwardArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
