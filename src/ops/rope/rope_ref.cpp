#include "ops/op_helpers.h"
#include "ops/rope/rope_impl.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const RopeArgs& a, Stream& stream) {
  const int64_t batch = a.x.dim(0), length = a.x.dim(1), heads = a.x.dim(2), half = a.x.dim(3) / 2;
  const bool adjacent = a.pairs == RopePairs::adjacent;
  parallel_ranges(stream, batch * length, rows_per_tile(heads * half), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / length, l = i % length;
      const Store *cos = row_of<Store>(a.cos, l), *sin = row_of<Store>(a.sin, l);
      for (int64_t h = 0; h < heads; ++h) {
        const Store* x = row_of<Store>(a.x, b) + l * a.x.stride(1) + h * a.x.stride(2);
        Store* y = row_of<Store>(a.y, b) + l * a.y.stride(1) + h * a.y.stride(2);
        for (int64_t p = 0; p < half; ++p) {
          const int64_t first = adjacent ? 2 * p : p, second = adjacent ? 2 * p + 1 : p + half;
          const Real u = x[first], v = x[second], c = cos[p], s = sin[p];
          y[first] = static_cast<Store>(u * c - v * s);
          y[second] = static_cast<Store>(u * s + v * c);
        }
      }
    }
  });
}

}  // namespace

void rope_ref(const RopeArgs& args, Stream& stream) {
  with_store(args.x, [&]<class Store>() { define<Store, double>(args, stream); });
}
void rope_working(const RopeArgs& args, Stream& stream) { define<float, float>(args, stream); }

}  // namespace tachy::ops
