// The definition of upsampling with convolution, by phases:
//   y[2i + a, 2j + b] = bias + Σ_{p,q < 2} V_ab[p, q]·x[i + a − 1 + p, j + b − 1 + q]
// over the taps inside x, where V_ab is the packed 2x2 kernel of phase (a, b). Sums are in double.
#include "cpu/conv_panels.h"
#include "cpu/conv_tiles.h"
#include "cpu/conv_weights.h"
#include "ops/upsample_conv2d/upsample_conv2d_impl.h"

namespace tachy::ops {

namespace {

template <class Sum>
void reference(const UpsampleConv2dArgs& a, Stream& stream, bool rounded = false) {
  const int64_t h = a.x.dim(1), w = a.x.dim(2), ci = a.x.dim(3), co = a.y.dim(3);
  ArenaScope scope(*stream.arena);
  Tensor scratch = stream.arena->tensor(dtype_of<Sum>(), {stream.threads(), co});
  Tensor plain = stream.arena->f32({4, 2, 2, ci, co});
  if (stream.measuring()) return;
  for (int64_t phase = 0; phase < 4; ++phase)
    cpu::unpack_conv_weight(static_cast<const char*>(a.packed.data) + phase * a.packed.bytes() / 4, 1, co, ci,
                            2, 2, plain.as<float>() + phase * 4 * ci * co, stream.precision.compute);
  const float* weight = plain.as<float>();
  stream.pool->run(a.y.dim(0) * 2 * h, [&](int64_t tile, int worker) {
    const int64_t f = tile / (2 * h), i = tile % (2 * h);
    Sum* sums = scratch.as<Sum>() + worker * co;
    std::vector<float> pixel(static_cast<size_t>(ci));
    for (int64_t j = 0; j < 2 * w; ++j) {
      const int64_t phase = i % 2 * 2 + j % 2;
      for (int64_t o = 0; o < co; ++o) sums[o] = a.bias.defined() ? a.bias.as<float>()[o] : 0.0f;
      for (int tap = 0; tap < 4; ++tap) {
        const int64_t row = i / 2 + i % 2 - 1 + tap / 2, column = j / 2 + j % 2 - 1 + tap % 2;
        if (row < 0 || row >= h || column < 0 || column >= w) continue;
        const float* x = a.x.as<float>() + ((f * h + row) * w + column) * ci;
        cpu::accumulate_tap(rounded ? cpu::round_pixel(x, pixel) : x, weight + (phase * 4 + tap) * ci * co,
                            ci, co, sums);
      }
      float* y = a.y.as<float>() + ((f * 2 * h + i) * 2 * w + j) * co;
      for (int64_t o = 0; o < co; ++o) y[o] = static_cast<float>(sums[o]);
    }
  });
}

}  // namespace

void upsample_conv2d_ref(const UpsampleConv2dArgs& args, Stream& stream) { reference<double>(args, stream); }
void upsample_conv2d_working(const UpsampleConv2dArgs& args, Stream& stream) {
  reference<float>(args, stream, cpu::usable(stream.precision.compute) == Compute::bf16);
}

}  // namespace tachy::ops
