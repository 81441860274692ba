// Tests the sound of two speakers: sums, delays and rates.
#include "media/sound/sound_mix.h"

#include <gtest/gtest.h>

#include <cmath>

#include "media/sound/resampler.h"

namespace tachy {
namespace {

Sound tone(int rate, size_t samples, float size) {
  Sound out{.rate = rate};
  for (size_t i = 0; i < samples; ++i) out.samples.push_back(size * std::sin(0.07f * static_cast<float>(i)));
  return out;
}

TEST(SoundMix, TogetherIsTheSumAndInTurnOneAfterTheOther) {
  const Sound a = tone(16000, 700, 0.3f), b = tone(16000, 1000, 0.4f);
  const Sound both = mixed(a, b, false), in_turn = mixed(a, b, true);
  EXPECT_EQ(both.rate, 16000);
  ASSERT_EQ(both.samples.size(), 1000u);
  ASSERT_EQ(in_turn.samples.size(), 1700u);
  for (size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(both.samples[i], (i < 700 ? a.samples[i] : 0.0f) + b.samples[i]);
    EXPECT_EQ(in_turn.samples[700 + i], b.samples[i]);
    if (i < 700) {
      EXPECT_EQ(in_turn.samples[i], a.samples[i]);
    }
  }
}

TEST(SoundMix, TheSlowerOneIsBroughtToTheOthersRate) {
  const Sound slow = tone(8000, 500, 0.3f), fast = tone(24000, 600, 0.2f);
  const std::vector<float> brought = resample(slow.samples, 8000, 24000);
  const Sound first = mixed(slow, fast, true), second = mixed(fast, slow, true);
  EXPECT_EQ(first.rate, 24000);
  ASSERT_EQ(first.samples.size(), 1500u + 600);
  for (size_t i = 0; i < 1500; ++i) {
    EXPECT_EQ(first.samples[i], brought[i]);
    EXPECT_EQ(second.samples[600 + i], brought[i]);
  }
}

TEST(SoundMix, ASumBeyondFullScaleIsMadeQuieterAsAWhole) {
  const Sound a = tone(16000, 900, 0.8f), b = tone(16000, 900, 0.7f), sum = mixed(a, b, false);
  float most = 0;
  for (size_t i = 0; i < 900; ++i) {
    most = std::max(most, std::abs(sum.samples[i]));
    EXPECT_NEAR(sum.samples[i] * (a.samples[100] + b.samples[100]),
                sum.samples[100] * (a.samples[i] + b.samples[i]), 1e-6);
  }
  EXPECT_EQ(most, 1.0f);
}

}  // namespace
}  // namespace tachy
