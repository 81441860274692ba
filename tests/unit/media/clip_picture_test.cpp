// Pictures for CLIP equal those of transformers' processor and of the original repository, bit for bit
// (tests/golden/clip_vision/make.py).
#include "media/picture/clip_picture.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "media/picture/image_reader.h"
#include "media_testing.h"

namespace tachy {
namespace {

using testing::bytes_of;
using testing::golden;

TEST(ClipPicture, PixelsAreTheReferences) {
  const std::pair<int, int> sizes[] = {{53, 37}, {28, 28}, {31, 90}, {7, 5}, {200, 64}, {28, 56}};
  for (const auto& [width, height] : sizes) {
    const std::string label = std::to_string(width) + "x" + std::to_string(height);
    const auto file = [&](const char* ending) {
      return bytes_of(golden("../clip_vision/pictures/" + label + ending));
    };
    RgbFrame picture(width, height);
    picture.rgb = file(".rgb");
    ASSERT_EQ(picture.rgb.size(), static_cast<size_t>(3 * width * height));
    for (const bool original : {false, true}) {
      const std::vector<float> got =
          clip_pixels(picture.view(), {.original = original, .shortest_edge = 28, .side = 28});
      const std::vector<uint8_t> want = file(original ? ".original.f32" : ".processor.f32");
      ASSERT_EQ(got.size() * sizeof(float), want.size());
      EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0)
          << label << (original ? " original" : " processor");
    }
  }
}

TEST(ClipPicture, AbsurdSizesAreRefused) {
  const RgbFrame thin(1, 400), good(8, 8);  // scaled to cover a square, `thin` would be 89600 pixels long
  EXPECT_THROW(clip_pixels(thin.view(), {}), Error);
  EXPECT_EQ(clip_pixels(thin.view(), {.original = true}).size(), size_t{3} * 224 * 224);
  EXPECT_THROW(clip_pixels({}, {}), Error);
  EXPECT_THROW(clip_pixels(good.view(), {.shortest_edge = 20, .side = 28}), Error);
  EXPECT_THROW(clip_pixels(good.view(), {.shortest_edge = 1 << 20, .side = 1 << 20}), Error);
}

}  // namespace
}  // namespace tachy
