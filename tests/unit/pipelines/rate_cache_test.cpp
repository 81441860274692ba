// Tests the engine's own step cache: what it skips and what it never skips; with a formula as the model, which steps it
// skips if outputs are exact, and if they are as rough as those of products in 8 bits.
#include "denoise/rate_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "request/request.h"

namespace tachy {
namespace {

struct Memory {
  Arena arena{1 << 16};
  ThreadPool pool{1};
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store{{}, stream};
  Tensor latents = store.allocate(DType::f32, {1, 1, 2, 4}),
         velocity = store.allocate(DType::f32, {1, 1, 1, 2, 4});

  void set(float x, float v) {
    std::fill_n(latents.as<float>(), 8, x);
    std::fill_n(velocity.as<float>(), 8, v);
  }
  RateCache cache(double threshold) {
    RateCache made({.threshold = threshold}, latents, store);
    for (const Tensor& t : made.state()) std::memset(t.data, 0, static_cast<size_t>(t.bytes()));
    return made;
  }
  // Says whether a step of ten finds the last output.
  bool reuses(RateCache& cache, int step) {
    return cache.reuse({.step = step, .in_part = step, .last = step == 9}, latents, velocity) !=
           StepCache::Found::nothing;
  }
  void computed(RateCache& cache) { cache.guided(latents, velocity.select(0, 0)); }
};

TEST(RateCache, ReusesWhileThePredictedChangeIsSmall) {
  Memory m;
  RateCache cache = m.cache(0.1);
  m.set(1.0f, 2.0f);
  EXPECT_FALSE(m.reuses(cache, 0)) << "nothing is known yet";
  m.computed(cache);
  EXPECT_FALSE(m.reuses(cache, 1)) << "one step tells no rate";
  m.set(1.1f, 2.2f);  // the output moves twice as much as the latents
  m.computed(cache);
  m.set(1.15f, 99.0f);  // the predicted change is 2 · 0.05 of 2.2: 4.5 %
  EXPECT_TRUE(m.reuses(cache, 2));
  EXPECT_FLOAT_EQ(m.velocity.as<float>()[5], 2.2f);
  m.set(1.15f, 99.0f);
  EXPECT_FALSE(m.reuses(cache, 9)) << "the last step is always computed";
  EXPECT_FLOAT_EQ(m.velocity.as<float>()[5], 99.0f);
  m.set(1.25f, 99.0f);  // the predicted change is 14 %
  EXPECT_FALSE(m.reuses(cache, 3));
}

constexpr int kSteps = 20;
constexpr int64_t kCount = 4096;

using State = std::vector<std::vector<float>>;

struct Walk {
  std::set<int> skipped;
  State state;  // the state after the last step
};

// The model's output v is x rotated a little further in each step, so that it moves by about 3 % of its size,
// plus rounding of this size. The walk makes the steps from `first` up to `end`; a first step later than 0
// continues from `state`.
Walk walk(const StepCacheConfig& config, float rounding, int first = 0, int end = kSteps,
          const State& state = {}) {
  ThreadPool pool(1);
  Arena arena(1024);
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store({}, stream);
  const Tensor x = store.allocate(DType::f32, {kCount}), v = store.allocate(DType::f32, {1, kCount});
  RateCache cache(config, x, store);
  const std::vector<Tensor> kept = cache.state();
  EXPECT_EQ(kept.size(), static_cast<size_t>(config.state_tensors(1)));
  for (size_t i = 0; i < kept.size(); ++i)
    for (int64_t j = 0; j < kCount; ++j)
      kept[i].as<float>()[j] = state.empty() ? 0 : state[i][static_cast<size_t>(j)];
  Walk out;
  for (int step = first; step < end; ++step) {
    for (int64_t j = 0; j < kCount; ++j)
      x.as<float>()[j] = std::sin(0.7f * static_cast<float>(j) + 0.02f * static_cast<float>(step));
    const StepPlace at{.step = step, .in_part = step, .last = step + 1 == kSteps};
    if (cache.reuse(at, x, v) != StepCache::Found::nothing) {
      out.skipped.insert(step);
    } else {
      // The rounding depends only on the step, so a resumed walk has the same.
      std::mt19937 random(static_cast<unsigned>(step));
      std::normal_distribution<float> noise(0, rounding);
      for (int64_t j = 0; j < kCount; ++j)
        v.as<float>()[j] =
            std::cos(0.7f * static_cast<float>(j) + 0.03f * static_cast<float>(step)) + noise(random);
      cache.guided(x, v.select(0, 0));
    }
  }
  for (const Tensor& t : kept) out.state.emplace_back(t.as<float>(), t.as<float>() + kCount);
  return out;
}

TEST(RateCache, SkipsWhileTheOutputHardlyChanges) {
  // At 3 % per step, the third skipped one is predicted to be 9 % away; a fourth would be 12 %.
  const Walk exact = walk({.threshold = 0.1}, 0);
  EXPECT_EQ(exact.skipped, (std::set<int>{2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15, 16, 18}));
  EXPECT_TRUE(walk({.threshold = 0.02}, 0).skipped.empty()) << "each step changes more than that";
}

TEST(RateCache, RoundingIsNotTakenForChange) {
  const float rounding = 0.06f;  // the differences of two such outputs are 0.085 of their size
  EXPECT_TRUE(walk({.threshold = 0.1}, rounding).skipped.empty()) << "the walk is not as rough as 8 bits are";
  const Walk coarse = walk({.threshold = 0.1, .coarse = true}, rounding);
  EXPECT_GE(coarse.skipped.size(), 5u);
  EXPECT_FALSE(coarse.skipped.contains(2)) << "three computed steps come first";
  EXPECT_FALSE(coarse.skipped.contains(kSteps - 1));
  EXPECT_TRUE(walk({.threshold = 0.02, .coarse = true}, 0).skipped.empty()) << "change is still change";
}

TEST(RateCache, AResumedRunDecidesAlike) {
  for (const bool coarse : {false, true}) {
    const StepCacheConfig config{.threshold = 0.1, .coarse = coarse};
    const float rounding = coarse ? 0.06f : 0.0f;
    const Walk whole = walk(config, rounding);
    for (int cut = 1; cut < kSteps; ++cut) {
      Walk parts = walk(config, rounding, 0, cut);
      const Walk rest = walk(config, rounding, cut, kSteps, parts.state);
      parts.skipped.insert(rest.skipped.begin(), rest.skipped.end());
      EXPECT_EQ(parts.skipped, whole.skipped) << "cut at " << cut;
      EXPECT_EQ(rest.state, whole.state) << "cut at " << cut;
    }
  }
}

TEST(RateCache, ARunOfFirstStepsAndALastOneReusesNothing) {
  const StepCacheConfig exact{.threshold = 0.1}, coarse{.threshold = 0.1, .coarse = true};
  EXPECT_FALSE(exact.may_reuse(3));
  EXPECT_TRUE(exact.may_reuse(4));
  EXPECT_FALSE(coarse.may_reuse(4));
  EXPECT_TRUE(coarse.may_reuse(5));
  EXPECT_FALSE(StepCacheConfig{}.may_reuse(50)) << "it is off";
  EXPECT_TRUE((StepCacheConfig{.threshold = 0.1, .kind = StepCacheKind::easycache}.may_reuse(3)))
      << "other kinds decide by themselves";
}

TEST(RateCache, EightBitsAreCoarse) {
  const auto coarse = [](const char* math, const char* attention) {
    VideoRequest r;
    r.math = math, r.attention = attention, r.step_cache = 0.1;
    return step_cache_of(r).coarse;
  };
  EXPECT_TRUE(coarse("fp8", "auto"));
  EXPECT_TRUE(coarse("int8", "auto"));
  EXPECT_TRUE(coarse("bf16", "int8"));
  EXPECT_FALSE(coarse("bf16", "bf16"));
  EXPECT_FALSE(coarse("auto", "auto"));
}

}  // namespace
}  // namespace tachy
