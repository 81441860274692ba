// Tests how a talking photo's video is cut into windows, and the results of guidance by text and speech.
#include "request/talk_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "request/guidance.h"

namespace tachy {
namespace {

TalkWindows of(int64_t frames, int64_t window, int64_t motion) {
  return {.frames = frames, .spoken = frames, .window = window, .motion = motion};
}

TEST(TalkWindows, CountIsTheOriginals) {
  EXPECT_EQ(TalkWindows().count(), 0);
  EXPECT_EQ(of(1, 81, 9).count(), 1);
  EXPECT_EQ(of(81, 81, 9).count(), 1);
  EXPECT_EQ(of(82, 81, 9).count(), 2);
  EXPECT_EQ(of(125, 81, 9).count(), 2);
  EXPECT_EQ(of(125, 81, 25).count(), 2);
  EXPECT_EQ(of(153, 81, 9).count(), 2);
  EXPECT_EQ(of(154, 81, 9).count(), 3);
  EXPECT_EQ(of(1000, 81, 9).count(), 14);
}

// The test has the loop in its original form: it continues as long as a window does not reach the end.
TEST(TalkWindows, EveryFrameComesOnceAndTheLastWindowReachesTheEnd) {
  for (const int64_t window : {5, 13, 81})
    for (int64_t motion = 1; motion < window; motion += 4)
      for (int64_t frames = 1; frames < 200; ++frames) {
        const TalkWindows w = of(frames, window, motion);
        int64_t first = 0, made = window, count = 1;
        while (first + window < frames) first += window - motion, made += window - motion, ++count;
        ASSERT_EQ(w.count(), count) << frames << " " << window << " " << motion;
        ASSERT_GE(made, frames);
        ASSERT_EQ(w.first(count - 1), first);
        int64_t next = 0;  // the new frames of each window follow those before
        for (int64_t k = 0; k < count; ++k) {
          ASSERT_EQ(w.first(k) + w.taken_over(k), next);
          next = w.first(k) + window;
        }
        // A latent frame reads two rows beyond its last frame.
        if (count > 1) {
          ASSERT_GE(w.spoken + w.rows_behind(), first + window + 2);
        }
      }
}

TEST(TalkWindows, SpeechBehindTheVideoIsHeardInsteadOfBackwards) {
  TalkWindows w = of(125, 81, 9);
  EXPECT_EQ(w.rows_behind(), 72 + 81 - 125 + 3);
  w.spoken = 150;
  EXPECT_EQ(w.rows_behind(), 6);
  w.spoken = 1000;
  EXPECT_EQ(w.rows_behind(), 0);
  EXPECT_EQ(of(30, 81, 9).rows_behind(), 0) << "one window: rows beyond the last are the last";
}

TEST(TalkWindows, EvenOnesAreAsManyAndAsShortAsPossible) {
  EXPECT_EQ(even_windows(of(120, 81, 9)).window, 65);
  EXPECT_EQ(even_windows(of(129, 81, 9)).window, 69);
  EXPECT_EQ(even_windows(of(30, 81, 9)).window, 33);
  for (int64_t frames = 1; frames < 400; ++frames)
    for (const int64_t motion : {1, 9, 25}) {
      const TalkWindows given = of(frames, 81, motion), even = even_windows(given);
      ASSERT_EQ(even.count(), given.count()) << frames << " " << motion;
      ASSERT_EQ(even.window % 4, 1);
      ASSERT_LE(even.window, 81);
      ASSERT_GT(even.window, motion);
      if (even.window - 4 > motion) {
        ASSERT_GT(of(frames, even.window - 4, motion).count(), even.count());
      }
    }
}

// The combination of the passes' predictions is compared with the formulas themselves.
TEST(Guidance, IsTheFormulasOfBothRecipes) {
  const double c = 1.7, t = -0.4, a = 0.9, n = 0.3;  // c has both, t the negative prompt, a no speech, n
                                                     // neither
  const auto sum = [&](const VideoRequest& r) {
    double out = 0;
    for (const Branches all = guidance_of(r).at(0); const Branch& b : all)
      out += b.weight * (b.negative ? (b.silent ? n : t) : (b.silent ? a : c));
    return out;
  };
  VideoRequest r;
  r.guidance = 5, r.audio_guidance = 4;
  EXPECT_NEAR(sum(r), t + 5 * (c - t), 1e-5) << "without speech its scale does not count";
  r.speech = std::make_shared<Speech>();
  EXPECT_NEAR(sum(r), n + 5 * (c - t) + 4 * (t - n), 1e-5);
  r.recipe = "wrapper";
  EXPECT_NEAR(sum(r), n + 5 * ((c - t) + 4 * (t - n)), 1e-5);
  r.guidance = 1;
  EXPECT_NEAR(sum(r), a + 4 * (c - a), 1e-5);
  EXPECT_EQ(guidance_of(r).at(0).size(), 2u);
  r.guidance = 5, r.audio_guidance = 1;
  EXPECT_NEAR(sum(r), t + 5 * (c - t), 1e-5);
  EXPECT_EQ(guidance_of(r).at(0).size(), 2u) << "no pass without speech for nothing";
  r.guidance = 0.5, r.audio_guidance = 0.5;
  EXPECT_EQ(guidance_of(r).at(0).size(), 1u);
  EXPECT_EQ(sum(r), c);
}

}  // namespace
}  // namespace tachy
