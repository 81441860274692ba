// Tests pictures as JPEG in memory: another decoder reads what was encoded, in any size, one after another;
// pictures from memory must respect the given limits.
#include "media/picture/jpeg.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "base/error.h"
#include "media/picture/image_reader.h"

namespace tachy {
namespace {

RgbFrame slope(int width, int height, int shift) {
  RgbFrame out(width, height);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      out.row(y)[3 * x] = static_cast<uint8_t>((x + shift) * 255 / (width + 40));
      out.row(y)[3 * x + 1] = static_cast<uint8_t>(y * 255 / height);
      out.row(y)[3 * x + 2] = 128;
    }
  return out;
}

double mean_difference(const RgbFrame& a, const RgbFrame& b) {
  double sum = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) sum += std::abs(int{a.rgb[i]} - int{b.rgb[i]});
  return sum / static_cast<double>(a.rgb.size());
}

TEST(Jpeg, IsReadByAnotherDecoder) {
  JpegEncoder encoder(90);
  for (const auto& [width, height] : {std::pair(160, 96), {1, 1}, {17, 9}, {640, 352}, {8, 8}, {161, 97}}) {
    const RgbFrame picture = slope(width, height, 20);
    std::vector<uint8_t> file{7, 7};
    encoder.encode(picture.view(), file);
    EXPECT_EQ(file[1], 7) << "it appends";
    const RgbFrame read = decode_image(std::span(file).subspan(2), "picture");
    ASSERT_EQ(read.width, width);
    ASSERT_EQ(read.height, height);
    // Colour is kept only for every second row and column, and in a picture of eight rows neighbours are 32
    // levels apart.
    EXPECT_LT(mean_difference(picture, read), height < 16 ? 6 : 3) << width << "x" << height;
  }
}

TEST(Jpeg, QualityIsPaidInBytes) {
  const RgbFrame picture = slope(160, 96, 0);
  std::vector<uint8_t> fine, coarse, again;
  JpegEncoder encoder(95);
  encoder.encode(picture.view(), fine);
  JpegEncoder(20).encode(picture.view(), coarse);
  encoder.encode(picture.view(), again);
  EXPECT_LT(coarse.size(), fine.size());
  EXPECT_EQ(fine, again) << "nothing is left of the picture before";
}

TEST(Jpeg, RowsMayLieApart) {
  const RgbFrame wide = slope(64, 16, 0);
  const RgbView left{wide.rgb.data(), 32, 16, 64 * 3};
  std::vector<uint8_t> file;
  JpegEncoder().encode(left, file);
  const RgbFrame read = decode_image(file, "picture");
  ASSERT_EQ(read.width, 32);
  EXPECT_NEAR(read.row(8)[3 * 31], wide.row(8)[3 * 31], 12);
}

TEST(Jpeg, WhatItCannotHoldIsRefused) {
  std::vector<uint8_t> file;
  EXPECT_THROW(JpegEncoder(0), Error);
  EXPECT_THROW(JpegEncoder(101), Error);
  EXPECT_THROW(JpegEncoder().encode(RgbView{}, file), Error);
  EXPECT_TRUE(file.empty());
}

// Limits are checked with the first picture's header: a decoder that finds a larger picture after it must not
// allocate memory for it.
TEST(Jpeg, ALargerPictureBehindTheFirstIsNotDecoded) {
  std::vector<uint8_t> small, large;
  JpegEncoder encoder;
  encoder.encode(slope(20, 10, 0).view(), small);
  encoder.encode(slope(2000, 1500, 0).view(), large);
  std::vector<uint8_t> both(small.begin(), small.end() - 2);  // the first picture without its end,
  both.insert(both.end(), large.begin() + 2, large.end());    // and the second one without its beginning
  std::vector<uint8_t> follows = small;
  follows.insert(follows.end(), large.begin(), large.end());
  for (const std::vector<uint8_t>& file : {both, follows}) {
    try {
      const RgbFrame read = decode_image(file, "picture");
      EXPECT_EQ(read.width, 20);
      EXPECT_EQ(read.height, 10);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << error.what();
    }
  }
}

TEST(Jpeg, APictureFromMemoryMayBeTooLarge) {
  std::vector<uint8_t> file;
  JpegEncoder().encode(slope(20, 10, 0).view(), file);
  EXPECT_EQ(decode_image(file, "picture", 200).width, 20);
  try {
    decode_image(file, "picture", 199);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(e.message(), ::testing::HasSubstr("picture: a picture of 20x10 is too large, at most 199"));
  }
  file.resize(file.size() / 2);
  EXPECT_THROW(decode_image(file, "picture"), Error);
  EXPECT_THROW(decode_image({}, "picture"), Error);
}

}  // namespace
}  // namespace tachy
