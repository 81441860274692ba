// Tests joining videos, and cutting the end off one: the pictures that come out, the sound and its length, and what is
// refused.
#include "media/video/join.h"

#include <gmock/gmock.h>

#include "media/metadata.h"
#include "media/sound/sound_reader.h"
#include "media/video/shorten.h"
#include "media/video/video_reader.h"
#include "media/video/video_writer.h"
#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;
using ::testing::HasSubstr;

std::vector<float> tone(double seconds, double hertz, int rate = 16000) {
  std::vector<float> out(static_cast<size_t>(seconds * rate));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = 0.5f * float(std::sin(6.283185307 * hertz * double(i) / rate));
  return out;
}

double loudness_between(const Sound& sound, double from, double to) {
  double sum = 0;
  const auto begin = static_cast<size_t>(from * sound.rate), end = static_cast<size_t>(to * sound.rate);
  for (size_t i = begin; i < end && i < sound.samples.size(); ++i)
    sum += double{sound.samples[i]} * sound.samples[i];
  return std::sqrt(sum / double(end - begin));
}

class JoinTest : public MediaTest {
 protected:
  struct Clip {
    int frames = 20, first = 0, width = 64, height = 48, crf = 10;
    double fps = 25;
    std::vector<float> sound = {};
  };
  fs::path make(const std::string& name, const Clip& clip) {
    VideoOptions options{.fps = clip.fps, .crf = clip.crf, .comment = "one clip"};
    options.sound = clip.sound;
    auto writer = VideoWriter::open(folder_ / name, clip.width, clip.height, options);
    for (int i = 0; i < clip.frames; ++i) writer->write(wave(clip.width, clip.height, clip.first + i).view());
    writer->finish();
    return folder_ / name;
  }
  std::string refused(const std::vector<fs::path>& parts) {
    try {
      join_videos(parts, folder_ / "out.mp4");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument) << e.message();
      return e.message();
    }
    return "";
  }
};

TEST_F(JoinTest, ClipsThatAreEncodedAlikeAreCopied) {
  const std::vector<fs::path> parts{make("a.mp4", {}), make("b.mp4", {.frames = 33, .first = 40}),
                                    make("c.mp4", {.frames = 1, .first = 90})};
  const fs::path out = folder_ / "out.mp4";
  const JoinedVideo joined = join_videos(parts, out, {.comment = "all of them"});
  EXPECT_TRUE(joined.copied);
  EXPECT_EQ(joined.frames, 54);
  EXPECT_NEAR(joined.seconds, 54 / 25.0, 1e-9);
  EXPECT_FALSE(joined.sound);
  VideoInfo info;
  const auto all = read_video(out, {}, &info);
  ASSERT_EQ(all.size(), 54u);
  EXPECT_NEAR(info.fps, 25, 1e-6);
  EXPECT_EQ(info.frames, 54);
  EXPECT_EQ(info.comment, "all of them");
  size_t at = 0;
  for (const fs::path& part : parts)
    for (const RgbFrame& frame : read_video(part)) EXPECT_EQ(all[at++].rgb, frame.rgb) << at;
  EXPECT_EQ(listing().size(), 4u) << "no temporary file is left";
  const std::vector<uint8_t> once = bytes_of(out);
  join_videos(parts, out, {.comment = "all of them"});
  EXPECT_EQ(bytes_of(out), once);
}

TEST_F(JoinTest, OthersAreEncodedAgain) {
  const std::vector<fs::path> parts{make("a.mp4", {}), make("b.webm", {.first = 20}),
                                    make("c.mp4", {.first = 40, .crf = 0})};
  for (const bool anew : {false, true}) {
    const auto some = anew ? std::span(parts).first(1) : std::span(parts);
    const fs::path out = folder_ / (anew ? "anew.mp4" : "out.mp4");
    const JoinedVideo joined = join_videos(some, out, {.encode_anew = anew});
    EXPECT_FALSE(joined.copied);
    const auto all = read_video(out);
    ASSERT_EQ(all.size(), some.size() * 20);
    for (size_t i = 0; i < all.size(); ++i) EXPECT_GT(psnr(all[i].rgb, wave(64, 48, int(i)).rgb), 32) << i;
  }
}

TEST_F(JoinTest, TheSoundStaysWithItsPictures) {
  const std::vector<fs::path> parts{make("a.mp4", {.frames = 25, .sound = tone(1, 440)}),
                                    make("b.mp4", {.frames = 25}),
                                    make("c.mp4", {.frames = 25, .sound = tone(3, 880)})};
  const fs::path out = folder_ / "out.mp4";
  const JoinedVideo joined = join_videos(parts, out);
  EXPECT_TRUE(joined.copied);
  EXPECT_TRUE(joined.sound);
  const Sound sound = read_sound(out);
  EXPECT_NEAR(double(sound.samples.size()) / sound.rate, 3, 0.05) << "a sound is cut with its pictures";
  EXPECT_NEAR(loudness_between(sound, 0.1, 0.9), 0.35, 0.03);
  EXPECT_LT(loudness_between(sound, 1.1, 1.9), 0.01);
  EXPECT_NEAR(loudness_between(sound, 2.1, 2.9), 0.35, 0.03);
  EXPECT_EQ(read_video(out).size(), 75u);
}

TEST_F(JoinTest, SomeFramesOfAPartAreTaken) {
  const std::vector<JoinPart> parts{
      {make("a.mp4", {}), 0, 8}, {make("b.mp4", {.first = 40}), 1}, {make("c.mp4", {.first = 90}), 7, 7}};
  const JoinedVideo joined = join_videos(parts, folder_ / "out.mp4");
  EXPECT_FALSE(joined.copied);
  EXPECT_EQ(joined.frames, 9 + 19 + 1);
  EXPECT_NEAR(joined.seconds, 29 / 25.0, 1e-9);
  const auto all = read_video(folder_ / "out.mp4");
  ASSERT_EQ(all.size(), 29u);
  for (int i = 0; i < 29; ++i) {
    const int shown = i < 9 ? i : i < 28 ? 40 + i - 8 : 97;
    EXPECT_GT(psnr(all[size_t(i)].rgb, wave(64, 48, shown).rgb), 32) << i;
  }
  const std::vector<JoinPart> whole{{parts[0].path, 0, 19}, {parts[1].path}};
  EXPECT_TRUE(join_videos(whole, folder_ / "out.mp4").copied) << "all frames by their numbers are the whole";
}

TEST_F(JoinTest, ThePartsOfASoundStayWithTheirPictures) {
  std::vector<float> low_then_silent = tone(0.5, 440);
  low_then_silent.resize(16000);
  const std::vector<JoinPart> parts{{make("a.mp4", {.frames = 25, .sound = low_then_silent}), 15, 24},
                                    {make("b.mp4", {.frames = 25, .sound = tone(1, 880)}), 0, 14}};
  join_videos(parts, folder_ / "out.mp4");
  const Sound sound = read_sound(folder_ / "out.mp4");
  EXPECT_NEAR(double(sound.samples.size()) / sound.rate, 1, 0.05);
  EXPECT_LT(loudness_between(sound, 0.05, 0.35), 0.01) << "its beginning was left out";
  EXPECT_NEAR(loudness_between(sound, 0.45, 0.95), 0.35, 0.03);
}

TEST_F(JoinTest, FramesThatAreNotThereAreRefused) {
  const fs::path a = make("a.mp4", {});
  for (const auto& [first, last] : {std::pair{0, 20}, {20, -1}, {5, 4}, {-1, 3}}) {
    try {
      join_videos(std::vector<JoinPart>{{a}, {a, first, last}}, folder_ / "out.mp4");
      ADD_FAILURE() << first << " to " << last;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(e.message(), HasSubstr("20 frames"));
    }
  }
  EXPECT_FALSE(fs::exists(folder_ / "out.mp4"));
}

TEST_F(JoinTest, WhatDoesNotFitTogetherIsRefused) {
  const fs::path a = make("a.mp4", {}), large = make("large.mp4", {.width = 96}),
                 slow = make("slow.mp4", {.fps = 16});
  EXPECT_THAT(refused({a, large}), HasSubstr("96x48"));
  EXPECT_THAT(refused({a, slow}), HasSubstr("16.000"));
  EXPECT_THAT(refused({}), HasSubstr("1 to 100"));
  EXPECT_THROW(join_videos(std::vector{a, folder_ / "none.mp4"}, folder_ / "out.mp4"), Error);
  EXPECT_THROW(join_videos(std::vector{a, a}, folder_ / "out.mp4", {.most_seconds = 1}), Error);
  const std::atomic<bool> cancel{true};
  EXPECT_THROW(join_videos(std::vector{a, a}, folder_ / "out.mp4", {.cancel = &cancel}), Error);
  EXPECT_FALSE(fs::exists(folder_ / "out.mp4"));
}

TEST_F(JoinTest, DamagedPartsGiveAnError) {
  const fs::path good = make("good.mp4", {}), bad = folder_ / "bad.mp4";
  const std::vector<uint8_t> whole = bytes_of(good);
  int failed = 0;
  unsigned random = 1;
  for (int i = 0; i < 150; ++i) {
    std::vector<uint8_t> bytes = whole;
    if (i < 50) bytes.resize(bytes.size() * size_t(i) / 50);
    for (int k = 0; i >= 50 && k < 8; ++k)
      random = random * 1664525u + 1013904223u, bytes[random % bytes.size()] = uint8_t(random >> 24);
    write_bytes(bad, bytes);
    try {
      join_videos(std::vector{good, bad}, folder_ / "out.mp4");
    } catch (const Error& e) {
      ++failed;
      EXPECT_NE(e.code(), ErrorCode::internal) << e.message();
    }
  }
  EXPECT_GT(failed, 50);
}

TEST_F(JoinTest, AShortenedVideoHasTheSoundOfItsPictures) {
  for (const char* name : {"a.mp4", "a.webm"}) {
    const fs::path video = make(name, {.frames = 30, .sound = tone(4, 440)});
    const auto before = read_video(video);
    const Sound whole = read_sound(video);
    EXPECT_GT(double(whole.samples.size()) / whole.rate, 3.9) << name;
    shorten_video(video, 30 / 25.0, "it was cut");
    const auto after = read_video(video);
    ASSERT_EQ(after.size(), before.size()) << name;
    for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i].rgb, before[i].rgb) << name << i;
    EXPECT_EQ(read_comment(video), "it was cut") << name;
    const Sound cut = read_sound(video);
    EXPECT_NEAR(double(cut.samples.size()) / cut.rate, 1.2, 0.04) << name;
    double furthest = 0;  // the same samples at the same time
    for (size_t i = 0; i + 2000 < cut.samples.size(); ++i)
      furthest = std::max(furthest, std::abs(double{cut.samples[i]} - whole.samples[i]));
    EXPECT_LT(furthest, 1e-3) << name;
    shorten_video(video, 10 / 25.0, "once more");
    EXPECT_EQ(read_video(video).size(), 10u) << name;
  }
  EXPECT_EQ(listing().size(), 2u);
}

}  // namespace
}  // namespace tachy
