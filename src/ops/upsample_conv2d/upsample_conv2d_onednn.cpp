// Upsampling with convolution through the vendor library: each band of rows of x and each phase (a, b) takes
// a 2x2 convolution into scratch, whose pixels are then copied to y[2i + a, 2j + b].
#include <algorithm>
#include <array>

#include "cpu/conv_tiles.h"
#include "cpu/conv_weights.h"
#include "ops/upsample_conv2d/upsample_conv2d_impl.h"

namespace tachy::ops {
namespace {

struct Phases {
  std::array<cpu::ConvTiles, 4> tiles;
  int64_t scratch_bytes = 0;

  explicit Phases(const UpsampleConv2dArgs& a) : tiles{of(a, 0), of(a, 1), of(a, 2), of(a, 3)} {
    for (const auto& phase : tiles) scratch_bytes = std::max(scratch_bytes, phase.scratch_bytes());
  }

  static cpu::ConvTiles of(const UpsampleConv2dArgs& a, int64_t phase) {
    const int64_t down = phase / 2, right = phase % 2;
    cpu::ConvTiles tiles({.h = a.x.dim(1),
                          .w = a.x.dim(2),
                          .ci = a.x.dim(3),
                          .co = a.y.dim(3),
                          .kernel_h = 2,
                          .kernel_w = 2,
                          .stride = 1,
                          .pad_top = 1 - down,
                          .pad_left = 1 - right,
                          .pad_bottom = down,
                          .pad_right = right});
    tiles.prepare(a.bias.defined(), false);
    return tiles;
  }
};

}  // namespace

std::optional<Refusal> upsample_conv2d_why_not_onednn(const UpsampleConv2dArgs& a, const Stream& stream) {
  if (const auto no = cpu::conv_form_why_not(cpu::ConvForm::onednn, stream.precision.compute)) return no;
  const Phases phases(a);
  for (const auto& tiles : phases.tiles)
    if (tiles.why_not()) return tiles.why_not();
  return std::nullopt;
}

void upsample_conv2d_onednn(const UpsampleConv2dArgs& a, Stream& stream) {
  const Phases phases(a);
  const int64_t h = a.x.dim(1), w = a.x.dim(2), ci = a.x.dim(3), co = a.y.dim(3);
  const int64_t bands = phases.tiles[0].count();
  const int64_t band_bytes =
      static_cast<int64_t>(align_up(static_cast<size_t>(phases.tiles[0].max_rows() * w * co * 4)));
  const int64_t per_worker = band_bytes + phases.scratch_bytes;
  ArenaScope scope(*stream.arena);
  char* scratch = static_cast<char*>(stream.arena->bytes(static_cast<size_t>(stream.threads() * per_worker)));
  if (stream.measuring()) return;
  const int64_t block = cpu::packed_conv_bytes(co, ci, 2, 2);
  const float* bias = a.bias.defined() ? a.bias.as<float>() : nullptr;
  stream.pool->run(a.x.dim(0) * bands, [&](int64_t tile, int worker) {
    const int64_t frame = tile / bands, index = tile % bands;
    float* out = reinterpret_cast<float*>(scratch + worker * per_worker);
    const float* x = a.x.as<float>() + frame * h * w * ci;
    float* y = a.y.as<float>() + frame * 4 * h * w * co;
    for (int64_t phase = 0; phase < 4; ++phase) {
      const cpu::ConvTiles& tiles = phases.tiles[static_cast<size_t>(phase)];
      const cpu::Band& band = tiles.band(index);
      tiles.run_band(index, x, static_cast<const char*>(a.packed.data) + phase * block, bias, false, out,
                     reinterpret_cast<char*>(out) + band_bytes);
      for (int64_t i = 0; i < band.rows; ++i) {
        float* row = y + (2 * (band.first_row + i) + phase / 2) * 2 * w * co;
        for (int64_t j = 0; j < w; ++j)
          std::copy_n(out + (i * w + j) * co, co, row + (2 * j + phase % 2) * co);
      }
    }
  });
}

}  // namespace tachy::ops
