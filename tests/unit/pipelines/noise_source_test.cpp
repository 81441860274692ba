// Noise that is drawn ahead in another thread (pipelines/noise_source.h): the values and states of drawing it one by one.
#include "pipelines/noise_source.h"

#include <gmock/gmock.h>

#include "tiny_model.h"

namespace tachy {
namespace {

using testing::HasSubstr;

VideoRequest seeded(const char* rng) {
  VideoRequest r;
  r.seed = 11, r.rng = rng;
  return r;
}

std::vector<float> values_of(std::span<const float> v) { return {v.begin(), v.end()}; }

// Sizes below a block of the generator's, of whole blocks and beyond.
TEST(NoiseSource, DrawnAheadIsTheSame) {
  const std::vector<size_t> counts = {48, 7, 4097, 16};
  for (const char* rng : {"cpu", "cuda"}) {
    NoiseSource plain(seeded(rng)), ahead(seeded(rng));
    EXPECT_EQ(values_of(ahead.next(33)), values_of(plain.next(33)));
    for (int block = 0; block < 3; ++block) {
      ahead.draw_ahead(counts);
      for (const size_t n : counts) {
        EXPECT_EQ(ahead.save(), plain.save()) << rng;
        EXPECT_EQ(values_of(ahead.next(n)), values_of(plain.next(n))) << rng;
      }
    }
    EXPECT_EQ(ahead.save(), plain.save());
    EXPECT_EQ(values_of(ahead.next(5)), values_of(plain.next(5))) << "and one that was not";
  }
}

TEST(NoiseSource, AStateForgetsWhatWasDrawnAhead) {
  NoiseSource source(seeded("cpu"));
  const auto state = source.save();
  const auto first = values_of(source.next(100));
  source.draw_ahead({100, 100});
  source.restore(state);
  EXPECT_EQ(values_of(source.next(100)), first);
}

TEST(NoiseSource, WhatIsMissingIsSaidWhenItIsWanted) {
  NoiseSource imported(std::vector<float>(30, 1.0f));
  imported.draw_ahead({20, 20});
  EXPECT_THAT(test::refusal([&] { imported.next(20); }, ErrorCode::invalid_argument), HasSubstr("30 values"));
  NoiseSource source(seeded("cpu"));
  source.draw_ahead({20});
  test::refusal([&] { source.next(10); }, ErrorCode::internal);
}

}  // namespace
}  // namespace tachy
