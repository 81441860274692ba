// Tests every output format: frames decode back, the container states what was requested, settings come back,
// bytes repeat.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "media/metadata.h"
#include "media/picture/image_reader.h"
#include "media/video/libav.h"
#include "media/video/video_input.h"
#include "media/video/video_reader.h"
#include "media/video/video_writer.h"
#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;

constexpr int kW = 160, kH = 96, kFrames = 20;
const std::string kComment =
    R"({"prompt": "eine Katze läuft 🐈, \"schnell\"", "seed": 42, "steps": [1, 2, 3], "text": "a\nb"})";

class WriterTest : public MediaTest {
 protected:
  fs::path write(const std::string& name, const VideoOptions& options = {}, int frames = kFrames) {
    auto writer = VideoWriter::open(folder_ / name, kW, kH, options);
    for (int t = 0; t < frames; ++t) writer->write(wave(kW, kH, t).view());
    EXPECT_EQ(writer->frames_written(), frames);
    writer->finish();
    return folder_ / name;
  }
  double worst_psnr(const std::vector<RgbFrame>& frames) {
    double worst = 99;
    for (size_t t = 0; t < frames.size(); ++t)
      worst = std::min(worst, psnr(frames[t].rgb, wave(kW, kH, int(t)).rgb));
    return worst;
  }
};

// Returns the types of the top-level boxes of an mp4 file, in order.
std::vector<std::string> boxes_of(const std::vector<uint8_t>& file) {
  std::vector<std::string> out;
  for (size_t at = 0; at + 8 <= file.size();) {
    size_t size =
        size_t(file[at]) << 24 | size_t(file[at + 1]) << 16 | size_t(file[at + 2]) << 8 | file[at + 3];
    out.emplace_back(reinterpret_cast<const char*>(&file[at + 4]), 4);
    if (size < 8) break;
    at += size;
  }
  return out;
}

TEST_F(WriterTest, Mp4) {
  VideoOptions options;
  options.comment = kComment;
  fs::path path = write("clip.mp4", options);
  VideoInfo info;
  auto frames = read_video(path, {}, &info);
  EXPECT_EQ(frames.size(), size_t(kFrames));
  EXPECT_EQ(info.frames, kFrames);
  EXPECT_EQ(info.width, kW);
  EXPECT_EQ(info.height, kH);
  EXPECT_DOUBLE_EQ(info.fps, 16);
  EXPECT_EQ(info.codec, "h264");
  EXPECT_EQ(info.pixel_format, "yuv420p");
  EXPECT_EQ(info.color_space, "bt709");
  EXPECT_EQ(info.comment, kComment);
  EXPECT_EQ(read_comment(path), kComment);
  EXPECT_GT(worst_psnr(frames), 38);
  auto boxes = boxes_of(bytes_of(path));
  auto moov = std::find(boxes.begin(), boxes.end(), "moov"),
       mdat = std::find(boxes.begin(), boxes.end(), "mdat");
  ASSERT_NE(moov, boxes.end());
  ASSERT_NE(mdat, boxes.end());
  EXPECT_LT(moov - boxes.begin(), mdat - boxes.begin()) << "the index must come first";
  EXPECT_EQ(listing(), std::set<std::string>{"clip.mp4"});
}

TEST_F(WriterTest, Webm) {
  VideoOptions options;
  options.comment = kComment;
  options.fps = 24000.0 / 1001;
  fs::path path = write("clip.webm", options);
  VideoInfo info;
  auto frames = read_video(path, {}, &info);
  EXPECT_EQ(frames.size(), size_t(kFrames));
  EXPECT_NEAR(info.fps, 23.976, 0.02);
  EXPECT_EQ(info.codec, "vp9");
  EXPECT_EQ(info.pixel_format, "yuv420p");
  EXPECT_EQ(info.color_space, "bt709");
  EXPECT_EQ(read_comment(path), kComment);
  EXPECT_GT(worst_psnr(frames), 36);
  EXPECT_EQ(listing(), std::set<std::string>{"clip.webm"});
}

TEST_F(WriterTest, Gif) {
  VideoOptions options;
  options.comment = kComment + std::string(700, 'x');  // several sub-blocks
  options.fps = 10;
  fs::path path = write("clip.gif", options);
  VideoInfo info;
  auto frames = read_video(path, {}, &info);
  EXPECT_EQ(frames.size(), size_t(kFrames));
  EXPECT_NEAR(info.fps, 10, 0.01);
  EXPECT_EQ(info.codec, "gif");
  EXPECT_EQ(info.comment, options.comment);
  EXPECT_EQ(read_comment(path), options.comment);
  EXPECT_GT(worst_psnr(frames), 26) << "255 colours for the whole clip";
  auto file = bytes_of(path);
  std::string text(file.begin(), file.end());
  EXPECT_NE(text.find(std::string("NETSCAPE2.0\x03\x01\x00\x00\x00", 16)), text.npos) << "loops for ever";
  options.loop = false;
  auto once = bytes_of(write("once.gif", options));
  EXPECT_EQ(std::string(once.begin(), once.end()).find("NETSCAPE2.0"), std::string::npos);
}

TEST_F(WriterTest, GifWithFewColoursIsExact) {
  auto writer = VideoWriter::open(folder_ / "flat.gif", 32, 32);
  std::vector<RgbFrame> given;
  for (int t = 0; t < 5; ++t) {
    RgbFrame frame = flat(32, 32, 200, 30, 60);
    for (int y = 4 * t; y < 4 * t + 8; ++y)
      for (int x = 0; x < 16; ++x) std::memcpy(frame.row(y) + 3 * x, "\x10\x80\xf0", 3);
    writer->write(frame.view());
    given.push_back(frame);
  }
  writer->finish();
  auto frames = read_video(folder_ / "flat.gif");
  ASSERT_EQ(frames.size(), given.size());
  for (size_t t = 0; t < given.size(); ++t) EXPECT_EQ(frames[t].rgb, given[t].rgb) << t;
}

TEST_F(WriterTest, SinglePng) {
  for (const std::string& comment : {std::string(R"({"seed": 1})"), kComment, std::string()}) {
    VideoOptions options;
    options.comment = comment;
    fs::path path = write("still.png", options, 1);
    EXPECT_EQ(read_image(path).rgb, wave(kW, kH, 0).rgb);
    EXPECT_EQ(read_comment(path), comment);
  }
  write_png(folder_ / "other.PNG", wave(33, 17, 3).view(), "settings");
  EXPECT_EQ(read_image(folder_ / "other.PNG").rgb, wave(33, 17, 3).rgb);
  EXPECT_EQ(read_comment(folder_ / "other.PNG"), "settings");
  EXPECT_EQ(listing(), (std::set<std::string>{"still.png", "other.PNG"}));
}

TEST_F(WriterTest, PngPatternAndFolders) {
  VideoOptions options;
  options.comment = kComment;
  write("a_%03d_z.png", options, 3);
  EXPECT_EQ(listing(), (std::set<std::string>{"a_000_z.png", "a_001_z.png", "a_002_z.png"}));
  EXPECT_EQ(read_comment(folder_ / "a_%03d_z.png"), kComment);
  write("frames/", options, 2);
  EXPECT_TRUE(fs::exists(folder_ / "frames/frame_0001.png"));
  write("frames", options, 4);  // the folder exists now
  for (const char* name : {"frames", "a_%03d_z.png"}) {
    VideoInfo info;
    auto frames = read_video(folder_ / name, {}, &info);
    EXPECT_EQ(frames.size(), name[0] == 'f' ? 4u : 3u);
    EXPECT_EQ(int64_t(frames.size()), info.frames);
    EXPECT_EQ(worst_psnr(frames), 99);
    EXPECT_EQ(info.comment, kComment);
  }
}

TEST_F(WriterTest, BytesRepeat) {
  VideoOptions options;
  options.comment = kComment;
  for (const char* ending : {".mp4", ".webm", ".gif"}) {
    fs::path first = write(std::string("a") + ending, options, 6);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // after this time a date would have
                                                                   // changed
    for (int again = 0; again < 5; ++again)
      EXPECT_TRUE(bytes_of(first) == bytes_of(write(std::string("b") + ending, options, 6))) << ending;
  }
}

// The picture is tall enough for several encoder threads, and wide enough for several tiles.
TEST_F(WriterTest, BytesDoNotDependOnTheMachine) {
  constexpr int w = 512, h = 320, frames = 24;
  const auto encode = [&](const fs::path& path) {
    auto writer = VideoWriter::open(path, w, h);
    for (int t = 0; t < frames; ++t) writer->write(wave(w, h, t).view());
    writer->finish();
    return bytes_of(path);
  };
  for (const char* name : {"clip.mp4", "clip.webm"}) {
    const auto alone = encode(folder_ / name);
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_TRUE(encode(folder_ / name) == alone) << name << ": on one processor";
    ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
    std::atomic<bool> done{false};
    std::vector<std::thread> busy;
    for (int i = 0; i < 4; ++i)
      busy.emplace_back([&] {
        for (volatile unsigned n = 0; !done;) n = n + 1;
      });
    EXPECT_TRUE(encode(folder_ / name) == alone) << name << ": beside busy threads";
    done = true;
    for (std::thread& thread : busy) thread.join();
  }
}

TEST_F(WriterTest, EverySpeedPlays) {
  std::set<std::vector<uint8_t>> mp4s, webms;
  for (const std::string_view speed : kEncodeSpeeds) {
    VideoOptions options;
    options.speed = speed;
    for (const char* name : {"a.mp4", "a.webm"}) {
      const fs::path path = write(name, options, 6);
      EXPECT_GT(worst_psnr(read_video(path)), 34) << name << ' ' << speed;
      (name[2] == 'm' ? mp4s : webms).insert(bytes_of(path));
    }
  }
  EXPECT_EQ(mp4s.size(), std::size(kEncodeSpeeds)) << "each preset is another one";
  EXPECT_GE(webms.size(), 4u);
  VideoOptions options;
  options.speed = kEncodeSpeedDefault;
  EXPECT_TRUE(bytes_of(write("b.mp4", options)) == bytes_of(write("c.mp4"))) << "the default by its name";
}

TEST_F(WriterTest, ColoursAreBt709LimitedRange) {
  // The numbers in the file itself are Y = 16 + 219 (0.2126 R + 0.7152 G + 0.0722 B), Cb = 128 + 224 (B -
  // Y)/1.8556, …
  struct Case {
    uint8_t r, g, b;
  };
  for (auto [r, g, b] : {Case{255, 0, 0}, Case{0, 255, 0}, Case{0, 0, 255}, Case{255, 255, 255},
                         Case{0, 0, 0}, Case{128, 128, 128}, Case{200, 120, 40}}) {
    for (const char* name : {"flat.mp4", "flat.webm"}) {
      VideoOptions options;
      options.crf = 1;
      auto writer = VideoWriter::open(folder_ / name, 64, 64, options);
      RgbFrame frame = flat(64, 64, r, g, b);
      for (int t = 0; t < 2; ++t) writer->write(frame.view());
      writer->finish();

      auto input = av::open_input(folder_ / name);
      ASSERT_GE(avformat_find_stream_info(input.get(), nullptr), 0);
      const AVCodec* decoder = nullptr;
      ASSERT_EQ(av_find_best_stream(input.get(), AVMEDIA_TYPE_VIDEO, -1, -1, &decoder, 0), 0);
      av::CodecPtr codec = av::new_codec(decoder);
      avcodec_parameters_to_context(codec.get(), input->streams[0]->codecpar);
      ASSERT_EQ(avcodec_open2(codec.get(), decoder, nullptr), 0);
      av::PacketPtr packet = av::new_packet();
      ASSERT_EQ(av_read_frame(input.get(), packet.get()), 0);
      ASSERT_EQ(avcodec_send_packet(codec.get(), packet.get()), 0);
      avcodec_send_packet(codec.get(), nullptr);
      av::FramePtr yuv = av::new_frame();
      ASSERT_EQ(avcodec_receive_frame(codec.get(), yuv.get()), 0);
      EXPECT_EQ(yuv->color_range, AVCOL_RANGE_MPEG);
      EXPECT_EQ(yuv->colorspace, AVCOL_SPC_BT709);
      if (codec->codec_id == AV_CODEC_ID_H264) {
        EXPECT_EQ(yuv->color_primaries, AVCOL_PRI_BT709);
        EXPECT_EQ(yuv->color_trc, AVCOL_TRC_BT709);
      }
      double luma = (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
      EXPECT_NEAR(yuv->data[0][32 * yuv->linesize[0] + 32], 16 + 219 * luma, 1.6) << name;
      EXPECT_NEAR(yuv->data[1][16 * yuv->linesize[1] + 16], 128 + 224 * (b / 255.0 - luma) / 1.8556, 1.6)
          << name;
      EXPECT_NEAR(yuv->data[2][16 * yuv->linesize[2] + 16], 128 + 224 * (r / 255.0 - luma) / 1.5748, 1.6)
          << name;

      RgbFrame back = read_video(folder_ / name).at(0);
      EXPECT_LE(max_difference(back.rgb, frame.rgb), 4) << name << int(r) << ' ' << int(g) << ' ' << int(b);
    }
  }
}

// With `crf` 0 the decoded frames equal the written ones to the bit, and a note says what that costs.
TEST_F(WriterTest, CrfZeroIsLossless) {
  struct Case {
    const char *name, *codec;
    int profile, width, height;
    bool streamed;
  };
  for (const Case& c : {Case{"a.mp4", "h264", 244, 64, 48, false},
                        {"b.mp4", "h264", 244, 64, 48, true},
                        {"c.webm", "vp9", 1, 63, 49, false}}) {
    SCOPED_TRACE(c.name);
    VideoOptions options;
    options.crf = 0;
    options.streamed = c.streamed;
    ::testing::internal::CaptureStderr();
    auto writer = VideoWriter::open(folder_ / c.name, c.width, c.height, options);
    std::vector<RgbFrame> written;
    for (unsigned t = 0; t < 5; ++t) {
      written.push_back(t < 3 ? noise(c.width, c.height, t) : wave(c.width, c.height, int(t)));
      writer->write(written.back().view());
    }
    writer->finish();
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(c.name), said.npos);
    EXPECT_NE(said.find("few players show"), said.npos) << said;
    VideoInfo info;
    const std::vector<RgbFrame> read = read_video(folder_ / c.name, {}, &info);
    EXPECT_EQ(info.codec, c.codec);
    ASSERT_EQ(read.size(), written.size());
    for (size_t t = 0; t < read.size(); ++t) EXPECT_EQ(read[t].rgb, written[t].rgb) << t;
    const auto input = av::open_input(folder_ / c.name);
    ASSERT_GE(avformat_find_stream_info(input.get(), nullptr), 0);
    EXPECT_EQ(input->streams[0]->codecpar->profile, c.profile);
  }
}

// These are the other ends of the scales.
TEST_F(WriterTest, CrfEnds) {
  for (const auto& [name, crf] : {std::pair("a.mp4", 1), {"b.mp4", 51}, {"c.webm", 1}, {"d.webm", 63}}) {
    VideoOptions options;
    options.crf = crf;
    VideoInfo info;
    EXPECT_EQ(read_video(write(name, options, 3), {}, &info).size(), 3u) << name;
    EXPECT_EQ(info.pixel_format, "yuv420p") << name;
  }
}

TEST_F(WriterTest, OddSizes) {
  expect_error(ErrorCode::invalid_argument, {"even", "65x48"},
               [&] { VideoWriter::open(folder_ / "a.mp4", 65, 48); });
  for (const char* name : {"a.webm", "a.gif", "a.png"}) {
    auto writer = VideoWriter::open(folder_ / name, 65, 49);
    writer->write(wave(65, 49, 0).view());
    writer->finish();
    auto frames = read_video(folder_ / name);
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_GT(psnr(frames[0].rgb, wave(65, 49, 0).rgb), 26) << name;
  }
  EXPECT_FALSE(fs::exists(folder_ / "a.mp4"));
}

TEST_F(WriterTest, StridesAndFrameRates) {
  // The frame is a view into the middle of a larger picture.
  RgbFrame large = wave(kW + 32, kH + 16, 0);
  RgbView view{large.row(8) + 3 * 16, kW, kH, int64_t(kW + 32) * 3};
  RgbFrame want(kW, kH);
  for (int y = 0; y < kH; ++y) std::memcpy(want.row(y), view.row(y), size_t(kW) * 3);
  for (double fps : {1.0, 12.5, 15.0, 29.97, 59.94, 60.0}) {
    VideoOptions options;
    options.fps = fps;
    auto writer = VideoWriter::open(folder_ / "view.mp4", kW, kH, options);
    for (int t = 0; t < 8; ++t) writer->write(view);
    writer->finish();
    VideoInfo info;
    auto frames = read_video(folder_ / "view.mp4", {}, &info);
    EXPECT_EQ(frames.size(), 8u) << fps;
    EXPECT_NEAR(info.fps, fps, 0.001);
    EXPECT_GT(psnr(frames[3].rgb, want.rgb), 38);
  }
}

TEST_F(WriterTest, OneFrameVideosPlay) {
  for (const char* name : {"one.mp4", "one.webm", "one.gif"})
    EXPECT_EQ(read_video(write(name, {}, 1)).size(), 1u) << name;
}

TEST(VideoFormat, ByName) {
  EXPECT_EQ(video_format("a.mp4"), VideoFormat::mp4);
  EXPECT_EQ(video_format("A.MP4"), VideoFormat::mp4);
  EXPECT_EQ(video_format("x.y/a.webm"), VideoFormat::webm);
  EXPECT_EQ(video_format("100%.gif"), VideoFormat::gif);
  EXPECT_EQ(video_format("a.png"), VideoFormat::png);
  EXPECT_EQ(video_format("a%d.png"), VideoFormat::png_sequence);
  EXPECT_EQ(video_format("new_folder/"), VideoFormat::png_sequence);
  EXPECT_EQ(video_format("/"), VideoFormat::png_sequence);
  for (const char* name : {"a%s.png", "a%04d%d.png", "a%.png", "a%99999d.png", "a%n.png"})
    EXPECT_THROW(video_format(name), Error) << name;
  expect_error(ErrorCode::unsupported, {".mp4", ".webm", ".gif", ".png", "'.avi'"},
               [] { video_format("a.avi"); });
  expect_error(ErrorCode::unsupported, {".mp4"}, [] { video_format("noextension"); });
}

}  // namespace
}  // namespace tachy
