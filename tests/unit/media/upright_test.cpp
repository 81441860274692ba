// Pictures and videos that are stored turned or mirrored are shown as Pillow's exif_transpose and ffmpeg show them
// (tests/golden/media/make_upright.py, make_turned_videos.py); colours and animations as Pillow reads them.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <map>
#include <random>

#include "hex_lines.h"
#include "media/picture/exif.h"
#include "media/picture/image_reader.h"
#include "media/picture/turn.h"
#include "media/video/video_reader.h"

namespace tachy {
namespace {
using namespace tachy::testing;

class UprightTest : public MediaTest {};

TEST_F(UprightTest, PicturesAsPillow) {
  int turned = 0;
  for (const HexLine& item : hex_lines("upright.txt")) {
    SCOPED_TRACE(item.name);
    const RgbFrame image = decode_image(item.file, "upright-" + item.name);
    EXPECT_EQ(image.width, item.width);
    EXPECT_EQ(image.height, item.height);
    EXPECT_EQ(image.rgb, item.values);
    write_bytes(folder_ / "picture", item.file);
    const ImageSize size = read_image_size(folder_ / "picture");
    EXPECT_EQ(size.width, item.width);
    EXPECT_EQ(size.height, item.height);
    turned += item.width < item.height;
  }
  EXPECT_GT(turned, 40);
}

// In a JPEG the same note is found in XMP in a segment of its own, and in EXIF that continues in a second
// segment.
TEST_F(UprightTest, JpegSegments) {
  const auto whole = bytes_of(golden("photo444.jpg"));
  const auto with = [&](const std::vector<std::string>& segments) {
    std::vector<uint8_t> out(whole.begin(), whole.begin() + 2);
    for (const std::string& segment : segments) {
      const size_t length = segment.size() + 2;
      out.insert(out.end(), {0xff, 0xe1, uint8_t(length >> 8), uint8_t(length)});
      out.insert(out.end(), segment.begin(), segment.end());
    }
    out.insert(out.end(), whole.begin() + 2, whole.end());
    return decode_image(out, "picture").width;
  };
  const std::string head("Exif\0\0", 6), xmp("http://ns.adobe.com/xap/1.0/\0", 29);
  const std::string six("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 26);
  EXPECT_EQ(with({}), 48);
  EXPECT_EQ(with({head + six}), 33);
  EXPECT_EQ(with({head + six.substr(0, 12), head + six.substr(12)}), 33) << "Pillow joins segments";
  EXPECT_EQ(with({xmp + "<x tiff:Orientation=\"6\"/>"}), 33);
  EXPECT_EQ(with({xmp + "<x tiff:Orientation=\"6\"/>", xmp + "<x/>"}), 48) << "the last XMP counts";
  EXPECT_EQ(with({xmp + "<x tiff:Orientation=\"3\"/>", head + six}), 33) << "EXIF counts before XMP";
}

TEST_F(UprightTest, AnyBytesAreAnOrientation) {
  std::mt19937 random(5);
  const std::string whole(
      "II*"
      "\0\x08\0\0\0\x02\0\x0f\x01\x02\0\x05\0\0\0\x26\0\0\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0abcde",
      43);
  int turned = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> bytes(whole.begin(), whole.end());
    for (int i = 0; i <= round % 3; ++i) bytes[random() % bytes.size()] = uint8_t(random());
    if (round % 4 == 0) bytes.resize(random() % bytes.size());
    const int got = orientation_of(bytes, {});
    ASSERT_TRUE(got >= 1 && got <= 8) << got;
    turned += got == 6;
  }
  EXPECT_GT(turned, 300);
  EXPECT_LT(turned, 2900);
}

TEST_F(UprightTest, VideosAsFfmpeg) {
  for (const HexLine& item : hex_lines("turned_videos.txt")) {
    SCOPED_TRACE(item.name);
    write_bytes(folder_ / item.name, item.file);
    const auto reader = VideoReader::open(folder_ / item.name);
    EXPECT_EQ(reader->info().width, item.width);
    EXPECT_EQ(reader->info().height, item.height);
    RgbFrame frame;
    ASSERT_TRUE(reader->read(frame));
    EXPECT_EQ(frame.width, item.width);
    EXPECT_EQ(frame.height, item.height);
    EXPECT_GT(psnr(frame.rgb, item.values), 33);  // chroma is enlarged in a different way
  }
}

// An edit list shows less than the file holds, so the number of frames that the container states differs from
// what can be read, and is not reported.
TEST_F(UprightTest, EditedVideos) {
  for (const HexLine& item : hex_lines("turned_videos.txt")) {
    if (item.name != "edited.mp4" && item.name != "plain.mp4") continue;
    write_bytes(folder_ / item.name, item.file);
    VideoInfo info;
    const size_t read = read_video(folder_ / item.name, {}, &info).size();
    EXPECT_EQ(read, 1u);  // one of the edited file's ten frames, as in ffmpeg
    EXPECT_EQ(info.frames, item.name == "plain.mp4" ? 1 : 0);
  }
}

// The reader warns of everything that it ignores although a player would respect it.
TEST_F(UprightTest, WhatIsLeftOutIsSaid) {
  const std::map<std::string, std::string> words{{"smpte2084.mp4", "HDR video (PQ)"},
                                                 {"arib-std-b67.mp4", "HDR video (HLG)"},
                                                 {"oblong.mp4", "not square (16:11)"},
                                                 {"unequal.mp4", "unequal times"}};
  size_t seen = 0;
  for (const HexLine& item : hex_lines("turned_videos.txt")) {
    write_bytes(folder_ / item.name, item.file);
    ::testing::internal::CaptureStderr();
    read_video(folder_ / item.name);
    const std::string said = ::testing::internal::GetCapturedStderr();
    const auto word = words.find(item.name);
    seen += word != words.end();
    EXPECT_THAT(
        said, word == words.end() ? ::testing::Matcher<std::string>("") : ::testing::HasSubstr(word->second))
        << item.name;
  }
  EXPECT_EQ(seen, words.size());
}

// For an angle that is not a multiple of 90° there is a warning, and the frames are as they are stored.
TEST_F(UprightTest, OtherAngles) {
  const auto matrix = [](double degrees, bool mirrored) {
    const double a = degrees * M_PI / 180, c = 65536 * std::cos(a), s = 65536 * std::sin(a),
                 m = mirrored ? -1 : 1;
    const int32_t all[9] = {int32_t(m * c), int32_t(-s), 0, int32_t(m * s), int32_t(c), 0, 0, 0, 1 << 30};
    return orientation_of_matrix(all);
  };
  EXPECT_EQ(matrix(0, false), 1);
  EXPECT_EQ(matrix(0.5, false), 1);
  EXPECT_EQ(matrix(90.5, false), 8);
  EXPECT_EQ(matrix(-89.5, false), 6);
  EXPECT_EQ(matrix(180, false), 3);
  EXPECT_EQ(matrix(0, true), 2);
  EXPECT_EQ(matrix(180, true), 4);
  EXPECT_EQ(matrix(30, false), 0);
  EXPECT_EQ(matrix(88, true), 0);
  const int32_t zeros[9] = {};
  EXPECT_EQ(orientation_of_matrix(zeros), 1);
  for (const HexLine& item : hex_lines("turned_videos.txt")) {
    if (item.name != "turned90.mkv") continue;
    std::vector<uint8_t> file = item.file;  // changes ProjectionPoseRoll from 90.0 to 30.0
    const uint8_t ninety[] = {0x76, 0x75, 0x88, 0x40, 0x56, 0x80};
    const auto at = std::search(file.begin(), file.end(), std::begin(ninety), std::end(ninety));
    ASSERT_NE(at, file.end());
    *(at + 4) = 0x3e, *(at + 5) = 0;
    write_bytes(folder_ / "askew.mkv", file);
    ::testing::internal::CaptureStderr();
    const auto reader = VideoReader::open(folder_ / "askew.mkv");
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                ::testing::HasSubstr("not a multiple of 90 degrees"));
    EXPECT_EQ(reader->info().width, 32);
  }
}

TEST_F(UprightTest, AnAnimationsFirstPictureIsSaid) {
  for (const HexLine& item : hex_lines("upright.txt")) {
    const bool animated = item.name.starts_with("animated-");
    if (!animated && item.name != "still-gif" && item.name != "png-1") continue;
    ::testing::internal::CaptureStderr();
    decode_image(item.file, "start-" + item.name);
    const std::string said = ::testing::internal::GetCapturedStderr();
    if (animated)
      EXPECT_THAT(said, ::testing::AllOf(::testing::HasSubstr("start-" + item.name),
                                         ::testing::HasSubstr("first picture")));
    else
      EXPECT_EQ(said, "");
  }
}

TEST_F(UprightTest, CutAnimations) {
  for (const HexLine& item : hex_lines("upright.txt"))
    if (item.name == "animated-webp" || item.name == "animated-gif" || item.name == "part-transparent-gif")
      for (size_t keep = 0; keep < item.file.size(); ++keep) {
        const std::span<const uint8_t> part(item.file.data(), keep);
        try {
          EXPECT_EQ(decode_image(part, "cut").rgb, item.values) << item.name << " cut at " << keep;
        } catch (const Error& e) {
          EXPECT_TRUE(e.code() == ErrorCode::corrupt || e.code() == ErrorCode::unsupported) << e.what();
        }
      }
}

}  // namespace
}  // namespace tachy
