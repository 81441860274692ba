#include <cmath>

#include "ops/activation_def.h"
#include "ops/group_norm/group_norm_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const GroupNormArgs& a, Stream& stream) {
  if (stream.measuring()) return;
  const bool first = a.channels_first;
  const int64_t p = a.x.dim(first ? 2 : 1), c = a.x.dim(first ? 1 : 2), width = c / a.groups;
  const Store *w = row_of<Store>(a.weight, 0), *bias = row_of<Store>(a.bias, 0);
  const auto at = [&](int64_t j, int64_t k) { return first ? k * p + j : j * c + k; };  // position, channel
  parallel_ranges(stream, a.x.dim(0) * a.groups, 1, [&](int64_t i, int64_t, int) {
    const int64_t begin = i % a.groups * width, end = begin + width;
    const Store* x = row_of<Store>(a.x, i / a.groups);
    Store* y = row_of<Store>(a.y, i / a.groups);
    Real sum = 0, squares = 0;
    for (int64_t j = 0; j < p; ++j)
      for (int64_t k = begin; k < end; ++k) sum += Real(x[at(j, k)]);
    const Real mean = sum / Real(p * width);
    for (int64_t j = 0; j < p; ++j)
      for (int64_t k = begin; k < end; ++k)
        squares += (Real(x[at(j, k)]) - mean) * (Real(x[at(j, k)]) - mean);
    const Real r = Real(1) / std::sqrt(squares / Real(p * width) + Real(a.eps));
    for (int64_t j = 0; j < p; ++j)
      for (int64_t k = begin; k < end; ++k) {
        const Real n =
            (Real(x[at(j, k)]) - mean) * r * (w ? Real(w[k]) : Real(1)) + (bias ? Real(bias[k]) : Real(0));
        y[at(j, k)] = static_cast<Store>(activate(n, a.act));
      }
  });
}

}  // namespace

void group_norm_ref(const GroupNormArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void group_norm_working(const GroupNormArgs& args, Stream& stream) { define<float, float>(args, stream); }

}  // namespace tachy::ops
