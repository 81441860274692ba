// Tests a run at each level: how far apart the results are, and that each level's plan is exact.

#include <gtest/gtest.h>

#include <cmath>

#include "base/profiler.h"
#include "engine/text_to_video.h"
#include "request/precision_of.h"
#include "tiny_model.h"

namespace tachy {
namespace {

VideoRequest request(const std::string& level) {
  VideoRequest r;
  r.prompt = "a red cat", r.negative_prompt = "ugly";
  r.width = 32, r.height = 16, r.frames = 5, r.steps = 20, r.seed = 3, r.level = level;
  return r;
}

std::vector<float> latents_of(const VideoRequest& r, ResolvedRequest* done = nullptr,
                              Profiler* profiler = nullptr) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
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

TEST(Levels, OneWayFromNamesToPrecision) {
  EXPECT_EQ(precision_at("safe", "", std::nullopt), Precision{});
  EXPECT_EQ(precision_at("aggressive", "", std::nullopt), (Precision{.compute = Compute::bf16}));
  EXPECT_EQ(precision_at("aggressive", "f32", std::nullopt), Precision{});
  EXPECT_EQ(precision_at("none", "", std::nullopt), (Precision{.definitions = true}));
  EXPECT_THROW(check_definitions(precision_at("none", "bf16", std::nullopt)), Error);
  EXPECT_THROW(precision_at("fast", "", std::nullopt), Error);
  EXPECT_EQ(precision_at("safe", "", 90), (Precision{.activation = DType::bf16}));
  EXPECT_EQ(precision_at("none", "", 90), Precision{}) << "float32 on a GPU";
  EXPECT_EQ(precision_at("safe", "", 75), (Precision{.activation = DType::f16})) << "no bf16 there";
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
