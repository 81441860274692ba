// Tests films with sound: which sound comes back, and at which time.
#include <limits>
#include <random>

#include "media/sound/sound_reader.h"
#include "media/video/video_reader.h"
#include "media/video/video_writer.h"
#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;

class SoundTrackTest : public MediaTest {
 protected:
  fs::path make(const std::string& name, int frames, std::span<const float> sound, int rate = 16000) {
    VideoOptions options;
    options.fps = 25;
    options.sound = sound;
    options.sound_rate = rate;
    auto writer = VideoWriter::open(folder_ / name, 64, 48, options);
    for (int t = 0; t < frames; ++t) writer->write(wave(64, 48, t).view());
    writer->finish();
    return folder_ / name;
  }
};

// Makes smooth noise: codecs preserve it, and it resembles itself at only one shift.
std::vector<float> noise_of(size_t count) {
  std::mt19937 random(4);
  std::vector<float> out(count);
  float kept = 0;
  for (float& v : out) v = kept = 0.8f * kept + 0.1f * (float(random()) / 2147483648.0f - 1);
  return out;
}

double likeness(const std::vector<float>& a, const std::vector<float>& b, int shift) {
  double ab = 0, aa = 0, bb = 0;
  for (int i = 400; i + 400 < int(std::min(a.size(), b.size())); ++i) {
    const double u = a[size_t(i)], v = b[size_t(i + shift)];
    ab += u * v, aa += u * u, bb += v * v;
  }
  return ab / std::sqrt(aa * bb + 1e-30);
}

TEST_F(SoundTrackTest, ComesBackInTime) {
  for (const char* name : {"a.mp4", "a.webm"})
    for (const size_t count : {16000u, 15013u, 200001u}) {
      const auto sound = noise_of(count);
      const auto back = read_speech(make(name, int(count / 640), sound));
      EXPECT_NEAR(double(back.size()), double(count), 700) << name;
      int best = -400;
      for (int shift = -399; shift <= 399; ++shift)
        if (likeness(sound, back, shift) > likeness(sound, back, best)) best = shift;
      EXPECT_LE(std::abs(best), 16) << name;  // 1 ms
      EXPECT_GT(likeness(sound, back, best), 0.9) << name;
    }
}

TEST_F(SoundTrackTest, ThePicturesAreTheSame) {
  const auto sound = noise_of(44100);
  for (const char* name : {"a.mp4", "a.webm"}) {
    const auto with = read_video(make(name, 26, sound, 44100));
    const auto bytes = bytes_of(folder_ / name);
    EXPECT_EQ(bytes_of(make(name, 26, sound, 44100)) == bytes, true) << name;
    const auto without = read_video(make(name, 26, {}));
    ASSERT_EQ(with.size(), 26u);
    ASSERT_EQ(without.size(), 26u);
    for (size_t i = 0; i < with.size(); ++i) EXPECT_TRUE(with[i].rgb == without[i].rgb) << name << ' ' << i;
  }
}

TEST_F(SoundTrackTest, ShortSounds) {
  for (const char* name : {"a.mp4", "a.webm"})
    for (const size_t count : {1u, 100u, 1023u})
      EXPECT_FALSE(read_speech(make(name, 5, noise_of(count))).empty());
}

TEST_F(SoundTrackTest, AFilmThatIsGivenUpLeavesNothing) {
  const auto sound = noise_of(16000 * 60);  // is still being encoded when the writer goes
  for (const char* name : {"a.mp4", "a.webm"})
    for (const int frames : {0, 40}) {
      VideoOptions options;
      options.sound = sound;
      auto writer = VideoWriter::open(folder_ / name, 64, 48, options);
      for (int t = 0; t < frames; ++t) writer->write(wave(64, 48, t).view());
      writer.reset();
      EXPECT_TRUE(fs::is_empty(folder_)) << name << ' ' << frames;
    }
}

// A film that grows while it is written has its sound from the first piece on.
TEST_F(SoundTrackTest, AGrowingFilmHasItsSoundFromTheStart) {
  const auto sound = noise_of(16000 * 2);
  VideoOptions options;
  options.fps = 25, options.sound = sound, options.streamed = true;
  auto writer = VideoWriter::open(folder_ / "a.mp4", 64, 48, options);
  for (int t = 0; t < 50; ++t) writer->write(wave(64, 48, t).view());
  const auto early = read_speech(folder_ / "a.mp4");
  EXPECT_GT(early.size(), 8000u);
  constexpr int kFirstFrame =
      1024 / 3;  // of AAC, which a growing file cannot say that players should remove (21 ms)
  EXPECT_GT(likeness(sound, early, kFirstFrame), 0.9);
  writer->finish();
  EXPECT_NEAR(double(read_speech(folder_ / "a.mp4").size()), 32000, 700);
}

TEST_F(SoundTrackTest, Refusals) {
  auto sound = noise_of(100);
  for (const char* name : {"a.gif", "a_%04d.png", "a.png"})
    expect_error(ErrorCode::invalid_argument, {"no sound", ".mp4"}, [&] { make(name, 1, sound); });
  expect_error(ErrorCode::invalid_argument, {"rate of the sound", "999"},
               [&] { make("a.mp4", 1, sound, 999); });
  sound[5] = std::numeric_limits<float>::quiet_NaN();
  expect_error(ErrorCode::invalid_argument, {"finite"}, [&] { make("a.mp4", 1, sound); });
}

}  // namespace
}  // namespace tachy
