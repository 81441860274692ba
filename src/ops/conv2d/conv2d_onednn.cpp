// The 2-D convolution through the vendor library: each band of output rows of each frame is one kernel call.
// The kernel adds to y, so y is filled with the residual first (unless they are the same memory).
#include <algorithm>

#include "cpu/conv_tiles.h"
#include "cpu/conv_weights.h"
#include "ops/conv2d/conv2d_impl.h"

namespace tachy::ops {
namespace {

cpu::ConvTiles tiles_of(const Conv2dArgs& a) {
  cpu::ConvTiles tiles({.h = a.x.dim(1),
                        .w = a.x.dim(2),
                        .ci = a.x.dim(3),
                        .co = a.y.dim(3),
                        .kernel_h = a.kernel_h,
                        .kernel_w = a.kernel_w,
                        .stride = a.stride,
                        .pad_top = a.pad_top,
                        .pad_left = a.pad_left,
                        .pad_bottom = a.pad_bottom,
                        .pad_right = a.pad_right});
  tiles.prepare(a.bias.defined(), a.residual.defined());
  return tiles;
}

}  // namespace

std::optional<Refusal> conv2d_why_not_onednn(const Conv2dArgs& a, const Stream& stream) {
  if (const auto no = cpu::conv_form_why_not(cpu::ConvForm::onednn, stream.precision.compute)) return no;
  if (std::max(a.pad_top, a.pad_bottom) >= a.kernel_h || std::max(a.pad_left, a.pad_right) >= a.kernel_w)
    return Refusal::arguments("padding as wide as the kernel");
  return tiles_of(a).why_not();
}

void conv2d_onednn(const Conv2dArgs& a, Stream& stream) {
  const cpu::ConvTiles tiles = tiles_of(a);
  ArenaScope scope(*stream.arena);
  char* scratch =
      static_cast<char*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * tiles.scratch_bytes())));
  if (stream.measuring()) return;
  const int64_t x_frame = a.x.stride(0), y_frame = a.y.stride(0), y_row = a.y.stride(1);
  const float* bias = a.bias.defined() ? a.bias.as<float>() : nullptr;
  stream.pool->run(a.x.dim(0) * tiles.count(), [&](int64_t tile, int worker) {
    const int64_t frame = tile / tiles.count(), index = tile % tiles.count();
    const cpu::Band& band = tiles.band(index);
    float* y = a.y.as<float>() + frame * y_frame;
    if (a.residual.defined() && a.residual.data != a.y.data)
      std::copy_n(a.residual.as<float>() + frame * y_frame + band.first_row * y_row, band.rows * y_row,
                  y + band.first_row * y_row);
    tiles.run(index, a.x.as<float>() + frame * x_frame, a.packed.data, bias, a.residual.defined(), y,
              scratch + worker * tiles.scratch_bytes());
  });
}

}  // namespace tachy::ops
