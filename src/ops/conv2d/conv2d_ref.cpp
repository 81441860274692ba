// The definition of the 2-D convolution:
//   y[f, i, j] = bias + Σ W[:, :, p, q]·x[f, i·s + p − top, j·s + q − left]
// over the taps that lie inside x, [+ residual]. Sums are in double and rounded once.
#include "cpu/conv_panels.h"
#include "cpu/conv_tiles.h"
#include "cpu/conv_weights.h"
#include "ops/conv2d/conv2d_impl.h"

namespace tachy::ops {

namespace {

template <class Sum>
void reference(const Conv2dArgs& a, Stream& stream, bool rounded = false) {
  const int64_t h = a.x.dim(1), w = a.x.dim(2), ci = a.x.dim(3);
  const int64_t ho = a.y.dim(1), wo = a.y.dim(2), co = a.y.dim(3);
  ArenaScope scope(*stream.arena);
  Tensor scratch = stream.arena->tensor(dtype_of<Sum>(), {stream.threads(), co});
  Tensor plain = stream.arena->f32({a.kernel_h, a.kernel_w, ci, co});
  if (stream.measuring()) return;
  cpu::unpack_conv_weight(a.packed.data, 1, co, ci, a.kernel_h, a.kernel_w, plain.as<float>(),
                          stream.precision.compute);
  const float* weight = plain.as<float>();
  stream.pool->run(a.x.dim(0) * ho, [&](int64_t tile, int worker) {
    const int64_t f = tile / ho, i = tile % ho;
    Sum* sums = scratch.as<Sum>() + worker * co;
    std::vector<float> pixel(static_cast<size_t>(ci));
    for (int64_t j = 0; j < wo; ++j) {
      for (int64_t o = 0; o < co; ++o) sums[o] = a.bias.defined() ? a.bias.as<float>()[o] : 0.0f;
      for (int64_t p = 0; p < a.kernel_h; ++p)
        for (int64_t q = 0; q < a.kernel_w; ++q) {
          const int64_t row = i * a.stride + p - a.pad_top, column = j * a.stride + q - a.pad_left;
          if (row < 0 || row >= h || column < 0 || column >= w) continue;
          const float* x = a.x.as<float>() + ((f * h + row) * w + column) * ci;
          cpu::accumulate_tap(rounded ? cpu::round_pixel(x, pixel) : x,
                              weight + (p * a.kernel_w + q) * ci * co, ci, co, sums);
        }
      const int64_t at = ((f * ho + i) * wo + j) * co;
      for (int64_t o = 0; o < co; ++o) {
        if (a.residual.defined()) sums[o] += a.residual.as<float>()[at + o];
        a.y.as<float>()[at + o] = static_cast<float>(sums[o]);
      }
    }
  });
}

}  // namespace

void conv2d_ref(const Conv2dArgs& args, Stream& stream) { reference<double>(args, stream); }
void conv2d_working(const Conv2dArgs& args, Stream& stream) {
  reference<float>(args, stream, cpu::usable(stream.precision.compute) == Compute::bf16);
}

}  // namespace tachy::ops
