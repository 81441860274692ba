// Tests the frames of finished windows that a run keeps: the same pixels come back, and nothing else does.
#include "media/video/frames_file.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "media/video/background_writer.h"
#include "media_testing.h"

namespace tachy {
namespace {

using namespace tachy::testing;
using ::testing::HasSubstr;

class FramesFileTest : public MediaTest {
 protected:
  FramesFile write(const std::string& name, const std::vector<RgbFrame>& frames) {
    FramesWriter writer(folder_ / name, frames[0].width, frames[0].height);
    for (const RgbFrame& frame : frames) writer.write(frame.view());
    writer.finish();
    return writer.made();
  }
  std::vector<std::vector<uint8_t>> read(const std::string& name, const FramesFile& expected, int width,
                                         int height) {
    std::vector<std::vector<uint8_t>> out;
    read_frames(folder_ / name, expected, width, height, [&](RgbView view) {
      out.emplace_back();
      for (int y = 0; y < view.height; ++y)
        out.back().insert(out.back().end(), view.row(y), view.row(y) + 3 * view.width);
    });
    return out;
  }
  std::string refused(const std::string& name, const FramesFile& expected, ErrorCode code, int width,
                      int height) {
    try {
      read(name, expected, width, height);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.message();
      EXPECT_THAT(e.message(), HasSubstr(name));
      return e.message();
    }
    ADD_FAILURE() << "it was accepted";
    return "";
  }
};

std::vector<RgbFrame> waves(int width, int height, int count) {
  std::vector<RgbFrame> out;
  for (int t = 0; t < count; ++t) out.push_back(wave(width, height, t));
  return out;
}

TEST_F(FramesFileTest, TheSamePixelsComeBack) {
  for (const auto& [width, height] :
       {std::pair(1, 1), std::pair(7, 5), std::pair(64, 48), std::pair(33, 130)}) {
    const auto frames = waves(width, height, 6);
    const FramesFile made = write("a.frames", frames);
    EXPECT_EQ(made.frames, 6);
    EXPECT_EQ(made.bytes, fs::file_size(folder_ / "a.frames"));
    const auto back = read("a.frames", made, width, height);
    ASSERT_EQ(back.size(), 6u);
    for (size_t t = 0; t < 6; ++t) EXPECT_EQ(back[t], frames[t].rgb) << t;
    auto behind = std::make_unique<FramesWriter>(folder_ / "b.frames", width, height);
    const FramesWriter& other = *behind;
    BackgroundWriter writer(std::move(behind));
    for (const RgbFrame& frame : frames) writer.write(frame.view());
    writer.finish();
    EXPECT_EQ(other.made().sha256, made.sha256) << "however many threads";
  }
}

TEST_F(FramesFileTest, AppearsWholeOrNotAtAll) {
  {
    FramesWriter writer(folder_ / "a.frames", 8, 8);
    writer.write(wave(8, 8, 0).view());
    EXPECT_FALSE(fs::exists(folder_ / "a.frames"));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(FramesFileTest, DamagedFilesAreNamed) {
  const FramesFile made = write("a.frames", waves(8, 6, 3));
  const std::vector<uint8_t> whole = bytes_of(folder_ / "a.frames");
  const std::string bytes(whole.begin(), whole.end());
  const auto put = [&](const std::string& text) {
    std::ofstream(folder_ / "x.frames", std::ios::binary) << text;
  };
  for (size_t i = 0; i < bytes.size(); ++i) {  // every byte, and every length
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ (i % 2 ? 0x80 : 1));
    put(other);
    refused("x.frames", made, ErrorCode::corrupt, 8, 6);
    put(bytes.substr(0, i));
    refused("x.frames", made, ErrorCode::corrupt, 8, 6);
    refused("x.frames", {made.frames, i, made.sha256}, ErrorCode::corrupt, 8, 6);
  }
  put(bytes);
  EXPECT_THAT(refused("x.frames", made, ErrorCode::corrupt, 6, 8), HasSubstr("8x6, expected 6x8"));
  for (const int64_t frames : {2, 4})
    refused("x.frames", {frames, made.bytes, made.sha256}, ErrorCode::corrupt, 8, 6);
  refused("x.frames", write("b.frames", waves(8, 6, 2)), ErrorCode::corrupt, 8, 6);
  refused("gone.frames", made, ErrorCode::not_found, 8, 6);
  EXPECT_EQ(read("x.frames", made, 8, 6).size(), 3u);
}

}  // namespace
}  // namespace tachy
