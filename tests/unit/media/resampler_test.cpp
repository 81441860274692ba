// Resampled sound equals librosa's and soxr's own output (tests/golden/media/make_sound.py), bit for bit.
#include "media/sound/resampler.h"

#include <cstring>
#include <random>

#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;

// On other processors soxr's vector code sums in another order.
#if defined(__x86_64__)
constexpr float kTolerance = 0;
#else
constexpr float kTolerance = 2e-6f;
#endif

void expect_same(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], kTolerance) << what << " at " << i;
}

std::vector<float> noise_of(size_t count) {
  std::mt19937 random(3);
  std::vector<float> out(count);
  for (float& v : out) v = float(random()) / 4294967296.0f - 0.5f;
  return out;
}

TEST(Resampler, AsLibrosa) {
  const auto sound = floats_of(golden("sound.f32"));
  ASSERT_EQ(sound.size(), 1999u);
  for (const int rate : {8000, 22050, 44100, 48000})
    expect_same(resample(sound, rate, 16000), floats_of(golden("sound_" + std::to_string(rate) + ".f32")),
                std::to_string(rate));
  expect_same(resample({sound.data(), 600}, 16000, 48000), floats_of(golden("sound_16000_48000.f32")), "up");
}

TEST(Resampler, AnyCutGivesTheSameBits) {
  const auto sound = noise_of(30011);
  std::mt19937 random(5);
  for (const int rate : {8000, 11025, 16000, 22050, 44100, 48000, 44099, 192000}) {
    const auto whole = resample(sound, rate, 16000);
    for (const size_t largest : {1u, 2u, 100u, 4097u, 20000u}) {
      std::vector<float> out;
      Resampler resampler(rate, 16000);
      for (size_t at = 0; at < sound.size();) {
        const size_t n = std::min(sound.size() - at, size_t(random() % (largest + 1)));  // may also be 0
        resampler.push({sound.data() + at, n}, out);
        at += n;
      }
      resampler.finish(out);
      ASSERT_EQ(out.size(), whole.size()) << rate;
      EXPECT_EQ(std::memcmp(out.data(), whole.data(), out.size() * sizeof(float)), 0)
          << rate << ' ' << largest;
    }
  }
}

TEST(Resampler, EveryLength) {
  const auto sound = noise_of(700);
  for (const int rate : {1000, 8000, 11025, 16000, 22050, 32000, 44100, 48000, 96000, 768000})
    for (size_t n = 0; n <= sound.size(); n += n < 40 ? 1 : 41) {
      const auto out = resample({sound.data(), n}, rate, 16000);
      EXPECT_EQ(out.size(), (n * 16000 + size_t(rate) - 1) / size_t(rate)) << rate << ' ' << n;
      for (const float v : out) EXPECT_TRUE(std::isfinite(v));
    }
  EXPECT_EQ(resampled_length(3, 48000, 16000), 1);
  EXPECT_EQ(resampled_length(4, 48000, 16000), 2);
  EXPECT_EQ(resampled_length(int64_t(1) << 60, 768000, 16000), ((int64_t(1) << 60) + 47) / 48);
}

// librosa counts in doubles; for the rates of real files both counts agree up to an hour and beyond.
TEST(Resampler, LengthsAsLibrosaCountsThem) {
  for (const int rate : {8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000, 88200, 96000, 192000})
    for (int64_t n = 1; n < int64_t(rate) * 7200; n += 9973)
      ASSERT_EQ(resampled_length(n, rate, 16000), int64_t(std::ceil(double(n) * (16000.0 / rate)))) << n;
}

TEST(Resampler, RefusesOddRates) {
  for (const int rate : {0, -1, 999, 768001})
    expect_error(ErrorCode::invalid_argument, {"from", "1000", "768000"}, [&] { Resampler(rate, 16000); });
  expect_error(ErrorCode::invalid_argument, {"to"}, [] { Resampler(16000, 0); });
}

}  // namespace
}  // namespace tachy
