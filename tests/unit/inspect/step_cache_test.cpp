// The step cache: what it skips, what it never skips, and a run at each level.
#include "pipelines/step_cache.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/profiler.h"
#include "pipelines/text_to_video.h"

namespace tachy {
namespace {

struct Memory {
  Arena arena{1 << 16};
  ThreadPool pool{1};
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store{{}, stream};
  Tensor latents = store.allocate(DType::f32, {1, 1, 2, 4}),
         velocity = store.allocate(DType::f32, {1, 1, 2, 4});

  void set(float x, float v) {
    std::fill_n(latents.as<float>(), 8, x);
    std::fill_n(velocity.as<float>(), 8, v);
  }
  StepCache cache(double threshold) {
    StepCache made(threshold, latents, store);
    for (const Tensor& t : made.state()) std::memset(t.data, 0, static_cast<size_t>(t.bytes()));
    return made;
  }
};

TEST(StepCacheTest, ReusesWhileThePredictedChangeIsSmall) {
  Memory m;
  StepCache cache = m.cache(0.1);
  m.set(1.0f, 2.0f);
  EXPECT_FALSE(cache.reuse(m.latents, 0, 10, m.velocity)) << "nothing is known yet";
  cache.computed(m.latents, m.velocity);
  EXPECT_FALSE(cache.reuse(m.latents, 1, 10, m.velocity)) << "one step tells no rate";
  m.set(1.1f, 2.2f);  // the output moves twice as much as the latents
  cache.computed(m.latents, m.velocity);
  m.set(1.15f, 99.0f);  // predicted change 2 · 0.05 of 2.2: 4.5 %
  EXPECT_TRUE(cache.reuse(m.latents, 2, 10, m.velocity));
  EXPECT_FLOAT_EQ(m.velocity.as<float>()[5], 2.2f);
  m.set(1.15f, 99.0f);
  EXPECT_FALSE(cache.reuse(m.latents, 9, 10, m.velocity)) << "the last step is always computed";
  EXPECT_FLOAT_EQ(m.velocity.as<float>()[5], 99.0f);
  m.set(1.25f, 99.0f);  // 14 %
  EXPECT_FALSE(cache.reuse(m.latents, 3, 10, m.velocity));
}

TEST(StepCacheTest, OffHoldsNothing) {
  Memory m;
  const size_t before = m.store.bytes();
  StepCache cache(0, m.latents, m.store);
  EXPECT_EQ(m.store.bytes(), before);
  cache.computed(m.latents, m.velocity);
  EXPECT_FALSE(cache.reuse(m.latents, 5, 10, m.velocity));
  EXPECT_TRUE(cache.state().empty());
}

VideoRequest request(const std::string& level) {
  VideoRequest r;
  r.prompt = "a red cat", r.negative_prompt = "ugly";
  r.width = 32, r.height = 16, r.frames = 5, r.steps = 20, r.seed = 3, r.level = level;
  return r;
}

std::vector<float> latents_of(const VideoRequest& r, ResolvedRequest* done = nullptr,
                              Profiler* profiler = nullptr) {
  TextToVideo pipeline(ModelBundle::open(std::string(TACHY_SOURCE_DIR) + "/tests/golden/pipeline/model"),
                       {.threads = 2});
  std::vector<float> out;
  VideoCallbacks callbacks;
  callbacks.profiler = profiler;
  callbacks.latents = [&](std::span<const float> values, std::span<const int64_t>) {
    out.assign(values.begin(), values.end());
  };
  const size_t before = Buffer::live_bytes();
  Buffer::reset_peak();
  const ResolvedRequest result = pipeline.generate(r, callbacks);
  const size_t peak = Buffer::peak_bytes() - before;  // plan() itself measures with Buffers
  EXPECT_EQ(peak, pipeline.plan(r).peak_bytes) << "level " << r.level << ": the plan is exact";
  if (done) *done = result;
  return out;
}

TEST(Levels, NoneAndSafeAgreeAndTheCacheIsClose) {
  const auto safe = latents_of(request("safe"));
  const auto none = latents_of(request("none"));
  ResolvedRequest done;
  VideoRequest cached = request("safe");
  cached.step_cache = 0.3;
  const auto reused = latents_of(cached, &done);
  EXPECT_GT(done.steps_reused, 0);
  double highest = 0, apart = 0, cache_apart = 0;
  for (size_t i = 0; i < safe.size(); ++i) {
    highest = std::max<double>(highest, std::abs(safe[i]));
    apart = std::max<double>(apart, std::abs(safe[i] - none[i]));
    cache_apart = std::max<double>(cache_apart, std::abs(safe[i] - reused[i]));
  }
  EXPECT_LT(apart / highest, 1e-5);
  EXPECT_GT(apart, 0) << "level none ran the same code";
  EXPECT_GT(cache_apart, 0);
  EXPECT_LT(cache_apart / highest, 0.5);
}

TEST(Levels, ProfilingChangesNothing) {
  HostProfiler profiler;
  EXPECT_EQ(latents_of(request("safe")), latents_of(request("safe"), nullptr, &profiler));
  int steps = 0, blocks = 0;
  for (const ProfileEvent& e : profiler.events()) {
    steps += std::string(e.name) == "step";
    blocks += std::string(e.name) == "block";
  }
  EXPECT_EQ(steps, 20);
  EXPECT_EQ(blocks, 40) << "two blocks a step";
}

TEST(Levels, ReferenceWithBf16IsRefused) {
  VideoRequest r = request("none");
  r.dtype = "bf16";
  EXPECT_THROW(latents_of(r), Error);
  r = request("safe");
  r.step_cache = 2;
  EXPECT_THROW(latents_of(r), Error);
  EXPECT_THROW(latents_of(request("warp")), Error);
}

}  // namespace
}  // namespace tachy
