// The definition of the causal 3-D convolution: y[t] = bias + Σ_j W_j ∗ in[t·time_stride + j] [+ residual],
// in = front history frames ++ x, spatial zero padding (kernel − 1)/2. Sums are in double and rounded once;
// the norm takes the sums before they are rounded.
#include <algorithm>
#include <cmath>

#include "cpu/conv_panels.h"
#include "cpu/conv_tiles.h"
#include "cpu/conv_weights.h"
#include "ops/conv3d/conv3d_impl.h"

namespace tachy::ops {

namespace {

template <class Sum>
void reference(const CausalConv3dArgs& a, Stream& stream, bool rounded = false) {
  const int64_t h = a.x.dim(1), w = a.x.dim(2), ci = a.x.dim(3), co = a.y.dim(3);
  ArenaScope scope(*stream.arena);
  Tensor scratch = stream.arena->tensor(dtype_of<Sum>(), {stream.threads(), co});
  Tensor plain = stream.arena->f32({a.kernel_t, a.kernel_h, a.kernel_w, ci, co});
  if (stream.measuring()) return;
  cpu::unpack_conv_weight(a.packed.data, a.kernel_t, co, ci, a.kernel_h, a.kernel_w, plain.as<float>(),
                          stream.precision.compute);
  const float* weight = plain.as<float>();
  stream.pool->run(a.y.dim(0) * h, [&](int64_t tile, int worker) {
    const int64_t t = tile / h, i = tile % h;
    Sum* sums = scratch.as<Sum>() + worker * co;
    std::vector<float> pixel(static_cast<size_t>(ci));
    for (int64_t j = 0; j < w; ++j) {
      for (int64_t o = 0; o < co; ++o) sums[o] = a.bias.defined() ? a.bias.as<float>()[o] : 0.0f;
      for (int64_t tap = 0; tap < a.kernel_t * a.kernel_h * a.kernel_w; ++tap) {
        const int64_t q = tap % a.kernel_w, p = tap / a.kernel_w % a.kernel_h,
                      r = tap / (a.kernel_w * a.kernel_h);
        const int64_t row = i + p - (a.kernel_h - 1) / 2, column = j + q - (a.kernel_w - 1) / 2;
        const float* frame = input_frame(a, t * a.time_stride + r);
        if (!frame || row < 0 || row >= h || column < 0 || column >= w) continue;
        const float* x = frame + (row * w + column) * ci;
        cpu::accumulate_tap(rounded ? cpu::round_pixel(x, pixel) : x, weight + tap * ci * co, ci, co, sums);
      }
      const int64_t at = ((t * h + i) * w + j) * co;
      for (int64_t o = 0; o < co && a.residual.defined(); ++o) sums[o] += a.residual.as<float>()[at + o];
      float* y = a.y.as<float>() + t * a.y.stride(0) + (i * w + j) * co;
      if (!a.gamma.defined() || a.normed.defined())
        for (int64_t o = 0; o < co; ++o) y[o] = static_cast<float>(sums[o]);
      if (!a.gamma.defined()) continue;
      Sum squares = 0;
      for (int64_t o = 0; o < co; ++o) squares += sums[o] * sums[o];
      const Sum scale =
          std::sqrt(static_cast<Sum>(co)) / std::max(std::sqrt(squares), static_cast<Sum>(1e-12));
      float* normed = (a.normed.defined() ? a.normed : a.y).template as<float>() + at;
      for (int64_t o = 0; o < co; ++o) {
        const Sum n = sums[o] * scale * a.gamma.as<float>()[o];
        normed[o] = static_cast<float>(a.silu ? n / (1 + std::exp(-n)) : n);
      }
    }
  });
}

}  // namespace

void causal_conv3d_ref(const CausalConv3dArgs& args, Stream& stream) { reference<double>(args, stream); }
void causal_conv3d_working(const CausalConv3dArgs& args, Stream& stream) {
  reference<float>(args, stream, cpu::usable(stream.precision.compute) == Compute::bf16);
}

}  // namespace tachy::ops
