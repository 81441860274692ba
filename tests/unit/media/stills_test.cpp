// Tests single pictures of a video: which frame they show, how large they are, and what damaged files do.
#include "media/video/stills.h"

#include "media/picture/image_reader.h"
#include "media/video/video_writer.h"
#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;

// Frame i is grey, and lighter by 2 than the one before.
RgbFrame grey(int width, int height, int i) {
  const auto v = static_cast<uint8_t>(2 * i);
  return flat(width, height, v, v, v);
}

class StillsTest : public MediaTest {
 protected:
  fs::path make(int frames, int width, int height, const char* name = "a.mp4") {
    auto writer = VideoWriter::open(folder_ / name, width, height, {.crf = 0});
    for (int i = 0; i < frames; ++i) writer->write(grey(width, height, i).view());
    writer->finish();
    return folder_ / name;
  }
  RgbFrame decoded(const std::vector<uint8_t>& jpeg) {
    write_bytes(folder_ / "a.jpg", jpeg);
    return read_image(folder_ / "a.jpg");
  }
};

TEST_F(StillsTest, AFrameByItsNumber) {
  const fs::path video = make(40, 64, 48);
  for (const int i : {0, 1, 17, 39}) EXPECT_EQ(frame_of_video(video, i).rgb, grey(64, 48, i).rgb) << i;
  EXPECT_EQ(frame_of_video(video, -1).rgb, grey(64, 48, 39).rgb);
  EXPECT_THROW(frame_of_video(video, 40), Error);
  EXPECT_THROW(frame_of_video(video, -2), Error);
}

TEST_F(StillsTest, AThumbnailIsOfTheFirstThird) {
  const RgbFrame wide = decoded(thumbnail_of(make(60, 832, 480)));
  EXPECT_EQ(wide.width, 512);
  EXPECT_EQ(wide.height, 295);
  EXPECT_NEAR(wide.rgb[3000], 40, 1);
  const RgbFrame high = decoded(thumbnail_of(make(3, 480, 832)));
  EXPECT_EQ(high.height, 512);
  EXPECT_NEAR(high.rgb[3000], 2, 1);
  const RgbFrame small = decoded(thumbnail_of(make(1, 64, 48)));
  EXPECT_EQ(small.width, 64) << "it is not enlarged";
}

TEST_F(StillsTest, ASheetOfSmallFrames) {
  const RgbFrame sheet = decoded(spritesheet_of(make(121, 320, 160)));
  ASSERT_EQ(sheet.width, 1600);
  ASSERT_EQ(sheet.height, 800);
  for (int i = 0; i < 100; ++i)
    EXPECT_NEAR(sheet.row(i / 10 * 80 + 40)[3 * (i % 10 * 160 + 80)], 2 * ((i * 121 + 99) / 100), 2) << i;
  const RgbFrame few = decoded(spritesheet_of(make(13, 64, 48)));
  EXPECT_EQ(few.width, 640);
  EXPECT_EQ(few.height, 96);
  EXPECT_NEAR(few.row(72)[3 * (2 * 64 + 32)], 24, 2);
  EXPECT_NEAR(few.row(72)[3 * (5 * 64 + 32)], 0, 2) << "nothing is left for this place";
  EXPECT_EQ(decoded(spritesheet_of(make(1, 64, 48))).width, 64);
}

TEST_F(StillsTest, CancelEndsIt) {
  const std::atomic<bool> cancel{true};
  const fs::path video = make(5, 64, 48);
  EXPECT_THROW(thumbnail_of(video, 512, &cancel), Error);
  EXPECT_THROW(spritesheet_of(video, {}, &cancel), Error);
  EXPECT_THROW(frame_of_video(video, -1, &cancel), Error);
}

// Whatever is left of a file, the result is a picture or an error.
TEST_F(StillsTest, CutAndDamagedFiles) {
  const std::vector<uint8_t> whole = bytes_of(make(12, 64, 48));
  const fs::path bad = folder_ / "bad.mp4";
  int failed = 0;
  const auto attempt = [&](const std::vector<uint8_t>& bytes) {
    write_bytes(bad, bytes);
    try {
      spritesheet_of(bad), thumbnail_of(bad);
    } catch (const Error& e) {
      ++failed;
      EXPECT_NE(e.code(), ErrorCode::internal) << e.message();
    }
  };
  for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 60)
    attempt({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)});
  EXPECT_GT(failed, 50);
  unsigned random = 1;
  for (int i = 0; i < 100; ++i) {
    std::vector<uint8_t> bytes = whole;
    for (int k = 0; k < 8; ++k)
      random = random * 1664525u + 1013904223u,
      bytes[random % bytes.size()] = static_cast<uint8_t>(random >> 24);
    attempt(bytes);
  }
}

}  // namespace
}  // namespace tachy
