// For CPUs that do not multiply bf16: converts the codes to float32 and uses the vendor library's convolution
// on them, band by band and tap by tap as in ops/conv3d. The scale and the steps after it are applied while a
// band's sums are in cache.
#include "cpu/conv_tiles.h"
#include "cpu/conv_weights.h"
#include "cpu/widen.h"
#include "ops/op_helpers.h"
#include "ops/scaled_conv3d/scaled_conv3d_impl.h"

namespace tachy::ops {
namespace {

cpu::ConvTiles tiles_of(const ScaledConv3dArgs& a) {
  cpu::ConvTiles tiles({.h = a.x.dim(1),
                        .w = a.x.dim(2),
                        .ci = a.x.dim(3),
                        .co = scaled_conv3d_result(a).dim(3),
                        .kernel_h = 3,
                        .kernel_w = 3,
                        .stride = 1,
                        .pad_top = 1,
                        .pad_left = 1,
                        .pad_bottom = 1,
                        .pad_right = 1});
  tiles.prepare(false, false);
  tiles.prepare(false, true);
  return tiles;
}

// Converts the frames that the kernel reaches, in order, to float32.
void widen_frames(const ScaledConv3dArgs& a, const Tensor& frames, Stream& stream) {
  const int64_t pixels = frames.stride(0);
  for (int64_t f = 0; f < frames.dim(0); ++f) {
    const uint8_t* codes = scaled_conv3d_frame(a, f + 2 - a.history);
    float* to = frames.as<float>() + f * pixels;
    parallel_ranges(stream, pixels, int64_t{1} << 16, [&](int64_t begin, int64_t end, int) {
      cpu::widen(codes + begin, a.x.dtype, end - begin, to + begin);
    });
  }
}

}  // namespace

std::optional<Refusal> scaled_conv3d_why_not_onednn(const ScaledConv3dArgs& a, const Stream&) {
  if (const auto no = cpu::conv_form_why_not(cpu::ConvForm::onednn, kScaledConvCompute)) return no;
  return tiles_of(a).why_not();
}

void scaled_conv3d_onednn(const ScaledConv3dArgs& a, Stream& stream) {
  const int64_t h = a.x.dim(1), w = a.x.dim(2), ci = a.x.dim(3), co = scaled_conv3d_result(a).dim(3);
  const cpu::ConvTiles tiles = tiles_of(a);
  const int64_t block = cpu::packed_conv_bytes(co, ci, 3, 3);
  const ArenaScope scope(*stream.arena);
  const Tensor frames = stream.arena->f32({a.history + a.x.dim(0), h, w, ci});
  const Tensor bands = stream.arena->f32({stream.threads(), tiles.max_rows() * w * co});
  char* scratch =
      static_cast<char*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * tiles.scratch_bytes())));
  if (stream.measuring()) return;
  widen_frames(a, frames, stream);
  stream.pool->run(a.x.dim(0) * tiles.count(), [&](int64_t tile, int worker) {
    const int64_t t = tile / tiles.count(), index = tile % tiles.count();
    const cpu::Band& band = tiles.band(index);
    float* sums = bands.as<float>() + worker * bands.stride(0);
    for (int64_t tap = std::max<int64_t>(0, 2 - a.history - t), first = tap; tap < 3; ++tap)
      tiles.run_band(index, frames.as<float>() + (t + tap - 2 + a.history) * frames.stride(0),
                     static_cast<const char*>(a.packed.data) + tap * block, nullptr, tap > first, sums,
                     scratch + worker * tiles.scratch_bytes());
    for (int64_t p = 0; p < band.rows * w; ++p)
      scaled_conv3d_finish(a, (t * h + band.first_row) * w + p, sums + p * co);
  });
}

}  // namespace tachy::ops
