// Chooses the 255 colours of a GIF by a histogram of all frames, median cut and a few k-means rounds, and
// then dithers frames with them.
//
// The histogram has 64 bins per channel. Each cut splits the box with the largest squared error, across the
// axis and at the place that leave the least error. Dithering is ordered (8x8 Bayer), and stronger for
// coarser palettes. Unlike error diffusion it does not flicker between frames, so still areas stay still and
// compress well. The method is Heckbert's, "Color image quantization for frame buffer display", 1982. Private
// to src/media.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "media/frame.h"

namespace tachy {

class ColorHistogram {
 public:
  ColorHistogram() : bins_(64 * 64 * 64) {}
  void add(RgbView frame);

  struct Bin {
    uint64_t count = 0;
    std::array<uint64_t, 3> sum{};
    uint64_t squares = 0;  // over all three channels; it tells a bin of one colour from a bin of several
  };
  const std::vector<Bin>& bins() const { return bins_; }

 private:
  std::vector<Bin> bins_;
};

struct Palette {
  std::vector<std::array<uint8_t, 3>> colors;
  double rms_error = 0;  // per channel, for the pixels of the histogram without dithering
};

Palette make_palette(const ColorHistogram& histogram, int max_colors);  // 1..255

class PaletteMapper {
 public:
  explicit PaletteMapper(const Palette& palette);
  void map(RgbView frame, uint8_t* indices, int64_t stride_bytes);

 private:
  uint8_t nearest(int r, int g, int b);

  int count_ = 0;
  float amplitude_ = 0;
  std::array<std::vector<float>, 3> colors_;  // by channel, for vector instructions
  std::vector<uint8_t> known_;                // index + 1 for every colour that has been looked up
};

}  // namespace tachy
