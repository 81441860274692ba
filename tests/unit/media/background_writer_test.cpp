#include "media/background_writer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;

constexpr int kW = 64, kH = 48, kFrames = 40;

class BackgroundWriterTest : public MediaTest {
 protected:
  std::unique_ptr<VideoWriter> open(const std::string& name) {
    return VideoWriter::open(folder_ / name, kW, kH, {});
  }
};

TEST_F(BackgroundWriterTest, SameBytesAsTheWriterItself) {
  for (const std::string ending : {".mp4", ".gif"}) {
    auto direct = open("a" + ending);
    BackgroundWriter behind(open("b" + ending));
    for (int t = 0; t < kFrames; ++t) {
      const RgbFrame frame = wave(kW, kH, t);
      direct->write(frame.view());
      behind.write(frame.view());  // the frame is gone before it is encoded
    }
    direct->finish();
    behind.finish();
    EXPECT_TRUE(bytes_of(folder_ / ("a" + ending)) == bytes_of(folder_ / ("b" + ending))) << ending;
  }
}

TEST_F(BackgroundWriterTest, ErrorsReachTheCaller) {
  BackgroundWriter writer(open("a.mp4"));
  writer.write(wave(kW, kH, 0).view());
  writer.write(wave(kW + 2, kH, 1).view());
  EXPECT_THROW(writer.finish(), Error);
  EXPECT_THROW(writer.write(wave(kW, kH, 2).view()), Error);
  EXPECT_FALSE(fs::exists(folder_ / "a.mp4"));
}

TEST_F(BackgroundWriterTest, WithoutFinishNothingIsLeft) {
  {
    BackgroundWriter writer(open("a.mp4"));
    for (int t = 0; t < kFrames; ++t) writer.write(wave(kW, kH, t).view());
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace tachy
