// Loudness is compared with that of pyloudnorm and of transformers' feature extractor
// (tests/golden/media/make_loudness.py).
#include "media/sound/loudness.h"

#include <fstream>
#include <limits>

#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;

// Makes the sound of the golden file's maker: whole numbers times powers of two, which have the same bits in
// both languages.
std::vector<float> sound(int rate, size_t count, double gain, bool pause) {
  constexpr double envelope[] = {1, 0x1p-2, 0x1p-11, 0x1p-4, 1, 0x1p-6, 0x1p-1};
  std::vector<float> out(count);
  uint32_t state = 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const int wave = i * 880 / size_t(rate) % 2 ? 8192 : -8192;
    out[i] =
        float((int(state >> 18) - 8192 + wave) / 32768.0 * (pause ? envelope[i * 7 / count] : 1.0) * gain);
  }
  return out;
}

TEST(Loudness, AsPyloudnorm) {
  std::ifstream in(golden("loudness.txt"));
  int rate = 0, cases = 0;
  size_t count = 0;
  double gain = 0;
  bool pause = false;
  std::string text;  // includes "-inf", which streams do not read as a number
  while (in >> rate >> count >> gain >> pause >> text) {
    const double want = std::strtod(text.c_str(), nullptr);
    const double got = integrated_loudness(sound(rate, count, gain, pause), rate);
    if (std::isinf(want))
      EXPECT_EQ(got, want) << rate << ' ' << count;
    else
      EXPECT_NEAR(got, want, 1e-6) << rate << ' ' << count << ' ' << gain << ' ' << pause;
    ++cases;
  }
  EXPECT_EQ(cases, 6 * 5 * 4 * 2);
}

TEST(Loudness, NormalisesByOneFactor) {
  for (const int rate : {8000, 16000, 44100})
    for (const double gain : {1.0, 0x1p-4, 0x1p-8}) {
      const auto before = sound(rate, size_t(rate) + 77, gain, true);
      auto after = before;
      normalise_loudness(after, rate);
      EXPECT_NEAR(integrated_loudness(after, rate), -23, 1e-5);
      const double factor = std::pow(10.0, (-23 - integrated_loudness(before, rate)) / 20);
      for (size_t i = 0; i < before.size(); ++i) ASSERT_EQ(after[i], float(factor * before[i])) << i;
    }
  auto quiet = sound(16000, 16000, 1, false);
  normalise_loudness(quiet, 16000, -31.5);
  EXPECT_NEAR(integrated_loudness(quiet, 16000), -31.5, 1e-5);
}

TEST(Loudness, SilenceStaysAsItIs) {
  std::vector<float> silence(16000, 0.0f);
  EXPECT_EQ(integrated_loudness(silence, 16000), -std::numeric_limits<double>::infinity());
  silence[9000] = 1e-7f;  // below the gate at -70
  const auto before = silence;
  normalise_loudness(silence, 16000);
  EXPECT_EQ(silence, before);
}

TEST(Loudness, RefusesWhatHasNone) {
  std::vector<float> sound(6399, 0.5f);
  expect_error(ErrorCode::invalid_argument, {"0.4 s", "6399 samples", "16000"},
               [&] { integrated_loudness(sound, 16000); });
  expect_error(ErrorCode::invalid_argument, {"0 samples"}, [&] { integrated_loudness({}, 16000); });
  for (const int rate : {0, -1, 999, 768001})
    expect_error(ErrorCode::invalid_argument, {"1000 to 768000"}, [&] { integrated_loudness(sound, rate); });
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    sound.assign(6400, 0.5f);
    sound[123] = bad;
    expect_error(ErrorCode::invalid_argument, {"sample 123", "finite"},
                 [&] { normalise_loudness(sound, 16000); });
  }
  sound.assign(6400, 0.5f);
  EXPECT_NO_THROW(integrated_loudness(sound, 16000));
  expect_error(ErrorCode::invalid_argument, {"target"},
               [&] { normalise_loudness(sound, 16000, std::numeric_limits<double>::quiet_NaN()); });
}

TEST(Standardise, AsTheFeatureExtractor) {
  const auto want = floats_of(golden("standardised.f32"));
  auto got = sound(16000, 1999, 0.25, true);
  for (float& v : got) v += 0.125f;
  standardise(got);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-6) << i;
}

TEST(Standardise, ConstantsAndNothing) {
  std::vector<float> sound;
  standardise(sound);
  EXPECT_TRUE(sound.empty());
  sound.assign(5, 0.25f);
  standardise(sound);
  EXPECT_EQ(sound, std::vector<float>(5, 0.0f));
  sound = {1e-4f, -1e-4f};  // the variance is a tenth of the 1e-7 that is added to it
  standardise(sound);
  EXPECT_NEAR(sound[0], 1e-4 / std::sqrt(1e-8 + 1e-7), 1e-6);
}

}  // namespace
}  // namespace tachy
