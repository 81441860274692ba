// The definition of the rotation: forward by the angle, or for gradients back by it, which only changes the
// sign of the sine.
#pragma once

#include "ops/op_helpers.h"
#include "ops/rope/rope.h"

namespace tachy::ops {

// x, y: [B, L, heads, head_dim]; cos, sin: [L, head_dim / 2]; sense: 1, or -1 for backward.
template <class Store, class Real>
void rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, RopePairs pairs, Real sense,
            const Tensor& y, Stream& stream) {
  const int64_t batch = x.dim(0), length = x.dim(1), heads = x.dim(2), half = x.dim(3) / 2;
  const bool adjacent = pairs == RopePairs::adjacent;
  parallel_ranges(stream, batch * length, rows_per_tile(heads * half), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / length, l = i % length;
      const Store *c_row = row_of<Store>(cos, l), *s_row = row_of<Store>(sin, l);
      for (int64_t h = 0; h < heads; ++h) {
        const Store* from = row_of<Store>(x, b) + l * x.stride(1) + h * x.stride(2);
        Store* to = row_of<Store>(y, b) + l * y.stride(1) + h * y.stride(2);
        for (int64_t p = 0; p < half; ++p) {
          const int64_t first = adjacent ? 2 * p : p, second = adjacent ? 2 * p + 1 : p + half;
          const Real u = from[first], v = from[second], c = c_row[p], s = sense * s_row[p];
          to[first] = static_cast<Store>(u * c - v * s);
          to[second] = static_cast<Store>(u * s + v * c);
        }
      }
    }
  });
}

}  // namespace tachy::ops
