// The definition of the convolution in 8 bits. Each product of two codes is exact in float32, so that only
// the sum, the scale and the steps after it round: they are in double, and rounded once at the end.
#include "cpu/conv_tiles.h"
#include "cpu/conv_weights.h"
#include "cpu/widen.h"
#include "ops/scaled_conv3d/scaled_conv3d_impl.h"

namespace tachy::ops {
namespace {

template <class Sum>
void reference(const ScaledConv3dArgs& a, Stream& stream) {
  const int64_t h = a.x.dim(1), w = a.x.dim(2), ci = a.x.dim(3), co = scaled_conv3d_result(a).dim(3);
  const ArenaScope scope(*stream.arena);
  const Tensor scratch = stream.arena->tensor(dtype_of<Sum>(), {stream.threads(), co});
  const Tensor pixels = stream.arena->f32({stream.threads(), ci});
  const Tensor plain = stream.arena->f32({3, 3, 3, ci, co});
  if (stream.measuring()) return;
  cpu::unpack_conv_weight(a.packed.data, 3, co, ci, 3, 3, plain.as<float>(), kScaledConvCompute);
  stream.pool->run(a.x.dim(0) * h, [&](int64_t tile, int worker) {
    const int64_t t = tile / h, i = tile % h;
    Sum* sums = scratch.as<Sum>() + worker * co;
    float* pixel = pixels.as<float>() + worker * ci;
    for (int64_t j = 0; j < w; ++j) {
      std::fill_n(sums, co, Sum{0});
      for (int64_t tap = 0; tap < 27; ++tap) {
        const int64_t row = i + tap / 3 % 3 - 1, column = j + tap % 3 - 1;
        const uint8_t* frame = scaled_conv3d_frame(a, t + tap / 9);
        if (!frame || row < 0 || row >= h || column < 0 || column >= w) continue;
        const uint8_t* codes = frame + (row * w + column) * ci;
        cpu::widen(codes, a.x.dtype, ci, pixel);
        cpu::accumulate_tap(pixel, plain.as<float>() + tap * ci * co, ci, co, sums);
      }
      scaled_conv3d_finish(a, (t * h + i) * w + j, sums);
    }
  });
}

}  // namespace

void scaled_conv3d_ref(const ScaledConv3dArgs& args, Stream& stream) { reference<double>(args, stream); }
void scaled_conv3d_working(const ScaledConv3dArgs& args, Stream& stream) { reference<float>(args, stream); }

}  // namespace tachy::ops
