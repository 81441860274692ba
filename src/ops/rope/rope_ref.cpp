#include "ops/op_helpers.h"
#include "ops/rope/rope_impl.h"

namespace tachy::ops {
namespace {

template <class Real>
void define(const RopeArgs& a, Stream& stream) {
  const int64_t batch = a.x.dim(0), length = a.x.dim(1), heads = a.x.dim(2), d = a.x.dim(3);
  parallel_ranges(stream, batch * length, rows_per_tile(heads * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i / length, l = i % length;
      const float *cos = row_ptr(a.cos, l), *sin = row_ptr(a.sin, l);
      for (int64_t h = 0; h < heads; ++h) {
        const float* x = a.x.as<float>() + b * a.x.stride(0) + l * a.x.stride(1) + h * a.x.stride(2);
        float* y = a.y.as<float>() + b * a.y.stride(0) + l * a.y.stride(1) + h * a.y.stride(2);
        for (int64_t p = 0; p < d / 2; ++p) {
          const Real u = x[2 * p], v = x[2 * p + 1], c = cos[p], s = sin[p];
          y[2 * p] = static_cast<float>(u * c - v * s);
          y[2 * p + 1] = static_cast<float>(u * s + v * c);
        }
      }
    }
  });
}

}  // namespace

void rope_ref(const RopeArgs& args, Stream& stream) { define<double>(args, stream); }
void rope_working(const RopeArgs& args, Stream& stream) { define<float>(args, stream); }

}  // namespace tachy::ops
