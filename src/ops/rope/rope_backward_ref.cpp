#include "ops/op_helpers.h"
#include "ops/rope/rope_impl.h"

namespace tachy::ops {
namespace {

template <class Store, class Real>
void define(const RopeBackwardArgs& a, Stream& stream) {
  const int64_t batch = a.dy.dim(0), length = a.dy.dim(1), heads = a.dy.dim(2), half = a.dy.dim(3) / 2;
  const bool adjacent = a.pairs == RopePairs::adjacent;
  parallel_ranges(stream, batch * length, rows_per_tile(heads * half), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / length, l = i % length;
      const Store *cos = row_of<Store>(a.cos, l), *sin = row_of<Store>(a.sin, l);
      for (int64_t h = 0; h < heads; ++h) {
        const Store* dy = row_of<Store>(a.dy, b) + l * a.dy.stride(1) + h * a.dy.stride(2);
        Store* dx = row_of<Store>(a.dx, b) + l * a.dx.stride(1) + h * a.dx.stride(2);
        for (int64_t p = 0; p < half; ++p) {
          const int64_t first = adjacent ? 2 * p : p, second = adjacent ? 2 * p + 1 : p + half;
          const Real u = dy[first], v = dy[second], c = cos[p], s = sin[p];
          dx[first] = static_cast<Store>(u * c + v * s);
          dx[second] = static_cast<Store>(v * c - u * s);
        }
      }
    }
  });
}

}  // namespace

void rope_backward_ref(const RopeBackwardArgs& args, Stream& stream) {
  with_store(args.dy, [&]<class Store>() { define<Store, double>(args, stream); });
}
void rope_backward_working(const RopeBackwardArgs& args, Stream& stream) {
  define<float, float>(args, stream);
}

}  // namespace tachy::ops
