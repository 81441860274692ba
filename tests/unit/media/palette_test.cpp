// Tests that the GIF palette is exact for few colours and close for many, and that dithering keeps the mean.
#include "media/picture/palette.h"

#include <algorithm>

#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;

RgbFrame through(const RgbFrame& in, const Palette& palette) {
  std::vector<uint8_t> indices(size_t(in.width) * in.height);
  PaletteMapper(palette).map(in.view(), indices.data(), in.width);
  RgbFrame out(in.width, in.height);
  for (size_t i = 0; i < indices.size(); ++i)
    std::copy_n(palette.colors[indices[i]].begin(), 3, out.rgb.begin() + ptrdiff_t(3 * i));
  return out;
}

TEST(Palette, FewColoursAreExact) {
  RgbFrame frame(16, 16);
  for (int i = 0; i < 256; ++i) {
    int k = i % 100;  // 100 colours, at least one bin apart
    uint8_t* p = &frame.rgb[size_t(3 * i)];
    p[0] = uint8_t(k * 2 % 50 * 5), p[1] = uint8_t(k / 25 * 60), p[2] = uint8_t(255 - k * 2);
  }
  ColorHistogram histogram;
  histogram.add(frame.view());
  Palette palette = make_palette(histogram, 255);
  EXPECT_LT(palette.rms_error, 1e-6);
  EXPECT_EQ(palette.colors.size(), 100u);
  EXPECT_EQ(through(frame, palette).rgb, frame.rgb);
}

TEST(Palette, ManyColours) {
  RgbFrame frame = wave(128, 96, 0);
  ColorHistogram histogram;
  histogram.add(frame.view());
  Palette palette = make_palette(histogram, 255);
  EXPECT_EQ(palette.colors.size(), 255u);
  EXPECT_LT(palette.rms_error, 8);
  EXPECT_GT(psnr(through(frame, palette).rgb, frame.rgb), 28);
  // More colours are always closer.
  EXPECT_GT(make_palette(histogram, 16).rms_error, 1.5 * palette.rms_error);
}

TEST(Palette, DitherKeepsTheMean) {
  // The frame is a slow gray ramp with 4 grays: without dithering, areas would be off by a large part of a
  // step.
  RgbFrame frame(256, 64);
  for (int y = 0; y < 64; ++y)
    for (int x = 0; x < 256; ++x) std::fill_n(frame.row(y) + 3 * x, 3, uint8_t(64 + x / 2));
  ColorHistogram histogram;
  histogram.add(frame.view());
  Palette palette = make_palette(histogram, 4);
  RgbFrame dithered = through(frame, palette);
  double worst = 0;
  for (int x0 = 32; x0 < 224; x0 += 8) {
    double sum = 0;
    for (int y = 0; y < 64; ++y)
      for (int x = x0; x < x0 + 8; ++x) sum += double(dithered.row(y)[3 * x]) - frame.row(y)[3 * x];
    worst = std::max(worst, std::abs(sum / (64 * 8)));
  }
  EXPECT_LT(worst, 4) << "the steps are 32 wide";
}

TEST(Palette, Refuses) {
  ColorHistogram empty;
  EXPECT_THROW(make_palette(empty, 255), Error);
  RgbFrame frame = wave(8, 8, 0);
  empty.add(frame.view());
  EXPECT_THROW(make_palette(empty, 0), Error);
  EXPECT_THROW(make_palette(empty, 256), Error);
}

}  // namespace
}  // namespace tachy
