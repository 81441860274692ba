#include <cmath>
#include <limits>

#include "ops/merge_softmax/merge_softmax_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

template <class Real>
void define(const MergeSoftmaxArgs& a, Stream& stream) {
  const int64_t queries = a.x.dim(1), heads = a.x.dim(2), width = a.x.dim(3);
  const auto row = [](const Tensor& t, int64_t b, int64_t q, int64_t h) {
    return t.as<float>() + b * t.stride(0) + q * t.stride(1) + h * t.stride(2);
  };
  const int64_t rows = a.x.dim(0) * queries * heads;
  parallel_ranges(stream, rows, rows_per_tile(width), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t h = i % heads, q = i / heads % queries, b = i / heads / queries;
      const int64_t at = (b * heads + h) * queries + q;
      float &sum = a.y_lse.as<float>()[at], *y = row(a.y, b, q, h);
      const float other = a.x_lse.as<float>()[at], *x = row(a.x, b, q, h);
      const float most = std::max(sum, other);
      const bool none = most == -std::numeric_limits<float>::infinity();
      const Real of_x = none ? 0 : std::exp(static_cast<Real>(other) - static_cast<Real>(most));
      const Real of_y = none ? 0 : std::exp(static_cast<Real>(sum) - static_cast<Real>(most));
      const Real all = none ? 1 : of_x + of_y;
      for (int64_t c = 0; c < width; ++c)
        y[c] =
            static_cast<float>(of_x / all * static_cast<Real>(x[c]) + of_y / all * static_cast<Real>(y[c]));
      sum = static_cast<float>(static_cast<Real>(most) + std::log(all));
    }
  });
}

}  // namespace

void merge_softmax_ref(const MergeSoftmaxArgs& args, Stream& stream) { define<double>(args, stream); }
void merge_softmax_working(const MergeSoftmaxArgs& args, Stream& stream) { define<float>(args, stream); }

}  // namespace tachy::ops
