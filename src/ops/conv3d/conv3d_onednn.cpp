// The causal convolution through the vendor library: each band of rows of each output frame takes one 2-D
// convolution per time tap that has a frame. The first one writes (with bias), and the others accumulate
// while the band is in cache. If there is a residual, y is filled with it before (unless they are the same
// memory), and the first call adds, too.
#include <algorithm>

#include "cpu/conv_tiles.h"
#include "cpu/conv_weights.h"
#include "ops/conv3d/conv3d_impl.h"

namespace tachy::ops {
namespace {

cpu::ConvTiles tiles_of(const CausalConv3dArgs& a) {
  const int64_t pad_h = (a.kernel_h - 1) / 2, pad_w = (a.kernel_w - 1) / 2;
  cpu::ConvTiles tiles({.h = a.x.dim(1),
                        .w = a.x.dim(2),
                        .ci = a.x.dim(3),
                        .co = a.y.dim(3),
                        .kernel_h = a.kernel_h,
                        .kernel_w = a.kernel_w,
                        .stride = 1,
                        .pad_top = pad_h,
                        .pad_left = pad_w,
                        .pad_bottom = pad_h,
                        .pad_right = pad_w});
  tiles.prepare(a.bias.defined(), a.residual.defined());
  if (a.kernel_t > 1) tiles.prepare(false, true);
  return tiles;
}

// Fills a band that no frame reaches with bias and residual alone.
void fill(const CausalConv3dArgs& a, float* y, int64_t pixels, const float* residual) {
  const int64_t co = a.y.dim(3);
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t o = 0; o < co; ++o)
      y[p * co + o] =
          (residual ? residual[p * co + o] : 0.0f) + (a.bias.defined() ? a.bias.as<float>()[o] : 0.0f);
}

void run_tile(const CausalConv3dArgs& a, const cpu::ConvTiles& tiles, int64_t t, int64_t index,
              char* scratch) {
  const cpu::Band& band = tiles.band(index);
  const int64_t y_row = a.y.stride(1), offset = t * a.y.stride(0) + band.first_row * y_row;
  const int64_t block = cpu::packed_conv_bytes(a.y.dim(3), a.x.dim(3), a.kernel_h, a.kernel_w);
  float* y = a.y.as<float>() + offset;
  const float* residual = a.residual.defined() ? a.residual.as<float>() + offset : nullptr;
  bool first = true;
  for (int64_t tap = 0; tap < a.kernel_t; ++tap) {
    const float* frame = input_frame(a, t * a.time_stride + tap);
    if (!frame) continue;
    if (first && residual && residual != y) std::copy_n(residual, band.rows * y_row, y);
    const float* bias = first && a.bias.defined() ? a.bias.as<float>() : nullptr;
    tiles.run_band(index, frame, static_cast<const char*>(a.packed.data) + tap * block, bias,
                   !first || residual, y, scratch);
    first = false;
  }
  if (first) fill(a, y, band.rows * a.y.dim(2), residual);
}

}  // namespace

std::optional<Refusal> causal_conv3d_why_not_onednn(const CausalConv3dArgs& a, const Stream& stream) {
  if (const auto no = causal_conv3d_plain(a)) return no;
  if (const auto no = cpu::conv_form_why_not(cpu::ConvForm::onednn, stream.precision.compute)) return no;
  return tiles_of(a).why_not();
}

void causal_conv3d_onednn(const CausalConv3dArgs& a, Stream& stream) {
  const cpu::ConvTiles tiles = tiles_of(a);
  ArenaScope scope(*stream.arena);
  char* scratch =
      static_cast<char*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * tiles.scratch_bytes())));
  if (stream.measuring()) return;
  stream.pool->run(a.y.dim(0) * tiles.count(), [&](int64_t tile, int worker) {
    run_tile(a, tiles, tile / tiles.count(), tile % tiles.count(), scratch + worker * tiles.scratch_bytes());
  });
}

}  // namespace tachy::ops
