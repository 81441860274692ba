// The plan made without loading anything equals what a run
// takes, byte for byte; no thread is started beside the pool.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tiny_model.h"

namespace tachy {
namespace {

size_t measured_peak(TextToVideo& pipeline, const VideoRequest& request) {
  const size_t before = Buffer::live_bytes();
  Buffer::reset_peak();
  test::run(pipeline, request);
  EXPECT_EQ(Buffer::live_bytes(), before) << "a run left Buffers behind";
  return Buffer::peak_bytes() - before;
}

class PlanEqualsReality : public testing::TestWithParam<bool> {};

TEST_P(PlanEqualsReality, PeakBytes) {
  for (const WeightMode mode : {WeightMode::automatic, WeightMode::packed, WeightMode::mapped})
    for (const int threads : {1, 2, 3})
      for (const double guidance : {1.0, 5.0}) {
        TextToVideo pipeline(ModelBundle::open(test::model_path(GetParam())),
                             {.threads = threads, .weights = mode});
        VideoRequest request = test::short_request();
        request.guidance = guidance;
        const VideoPlan plan = pipeline.plan(request);
        EXPECT_EQ(measured_peak(pipeline, request), plan.peak_bytes)
            << threads << " threads, guidance " << guidance << ", mode " << static_cast<int>(mode);
      }
}

// Each stage is compared by itself, not only the largest one.
TEST_P(PlanEqualsReality, BytesOfTextAndDenoise) {
  for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped})
    for (const int threads : {1, 3}) {
      TextToVideo pipeline(ModelBundle::open(test::model_path(GetParam())),
                           {.threads = threads, .weights = mode});
      const VideoRequest request = test::short_request();
      const VideoPlan plan = pipeline.plan(request);
      const auto planned = [&](size_t i) {
        return plan.shared_bytes + plan.stages[i].weight_bytes + plan.stages[i].arena_bytes;
      };
      const size_t before = Buffer::live_bytes();
      size_t text = 0, denoise = 0;
      Buffer::reset_peak();
      VideoCallbacks callbacks;
      callbacks.progress = [&](const Progress& p) {
        if (p.stage == "text") text = Buffer::peak_bytes() - before;
        if (p.stage == "load" && p.done == 0) Buffer::reset_peak();
        if (p.stage == "denoise") denoise = Buffer::peak_bytes() - before;
      };
      test::run(pipeline, request, callbacks);
      EXPECT_EQ(text, planned(0)) << threads << " threads, mode " << static_cast<int>(mode);
      EXPECT_EQ(denoise, planned(1)) << threads << " threads, mode " << static_cast<int>(mode);
    }
}

// In these requests the worst moment moves with the size, samplers hold different states, and a long prompt
// makes the text encoder the largest stage.
TEST_P(PlanEqualsReality, PeakBytesOfOtherRequests) {
  TextToVideo pipeline(ModelBundle::open(test::model_path(GetParam())), {.threads = 2});
  VideoRequest wide = test::short_request();
  wide.width = 112, wide.height = 80, wide.frames = 9;
  VideoRequest still = test::short_request();
  still.frames = 1, still.sampler = "dpm++", still.steps = 5;
  VideoRequest wordy = test::short_request();
  for (int i = 0; i < 200; ++i) wordy.prompt += " cat moves";
  VideoRequest few = test::short_request();
  few.sampler = "lightx2v-4";
  VideoRequest empty = test::short_request();
  empty.prompt.clear(), empty.negative_prompt = "";
  VideoRequest rows = test::short_request();
  rows.max_text_tokens = 4;
  for (const VideoRequest& request : {wide, still, wordy, few, empty, rows})
    EXPECT_EQ(measured_peak(pipeline, request), pipeline.plan(request).peak_bytes) << request.prompt;
}

INSTANTIATE_TEST_SUITE_P(Layouts, PlanEqualsReality, testing::Bool());

TEST(Plan, IsABoundWhenTheModelIsKept) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2, .keep_loaded = true});
  const VideoRequest request = test::short_request();
  const VideoPlan plan = pipeline.plan(request);
  const size_t before = Buffer::live_bytes();
  for (int i = 0; i < 2; ++i) {
    Buffer::reset_peak();
    test::run(pipeline, request);
    EXPECT_LE(Buffer::peak_bytes() - before, plan.peak_bytes);
  }
}

// Only words, seeds and noise may differ: whatever else a plan depends on makes a new one.
TEST(Plan, IsReusedForRequestsOfOneShape) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2, .keep_loaded = true});
  VideoRequest request = test::short_request();
  const VideoPlan first = pipeline.plan(request);
  EXPECT_EQ(pipeline.counters().reused, 0);
  request.prompt = "red a cat", request.seed = 9;  // as many tokens
  const VideoPlan again = pipeline.plan(request);
  EXPECT_EQ(pipeline.counters().reused, 1);
  EXPECT_EQ(again.peak_bytes, first.peak_bytes);
  ASSERT_EQ(again.stages.size(), first.stages.size());
  for (size_t i = 0; i < first.stages.size(); ++i) {
    EXPECT_EQ(again.stages[i].arena_bytes, first.stages[i].arena_bytes);
    EXPECT_EQ(again.stages[i].picks.size(), first.stages[i].picks.size());
  }
  const int before = pipeline.counters().reused;
  std::vector<VideoRequest> others(6, request);
  others[0].prompt += " and a dog";
  others[1].width = 48;
  others[2].steps = 3;
  others[3].level = "aggressive";
  others[4].guidance = 1;
  others[5].without = {"fused-norms"};
  for (const VideoRequest& other : others) {
    const VideoPlan plan = pipeline.plan(other);
    TextToVideo fresh(ModelBundle::open(test::model_path()), {.threads = 2, .keep_loaded = true});
    EXPECT_EQ(plan.peak_bytes, fresh.plan(other).peak_bytes);
  }
  EXPECT_EQ(pipeline.counters().reused, before);
}

TEST(Plan, LoadsNothing) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  VideoRequest request = test::short_request();
  pipeline.plan(request);  // this measures the machine once
  request.width = 1920, request.height = 1088, request.frames = 81;
  Buffer::reset_peak();
  const size_t before = Buffer::live_bytes();
  const VideoPlan plan = pipeline.plan(request);
  EXPECT_EQ(Buffer::peak_bytes(), before);
  EXPECT_GT(plan.peak_bytes, 100u << 20);
  ASSERT_EQ(plan.stages.size(), 3u);
  for (const StagePlan& s : plan.stages) {
    EXPECT_GT(s.mapped_bytes, 0u) << s.name;
    EXPECT_GT(s.flops, 0) << s.name;
    EXPECT_GT(s.seconds, 0) << s.name;
  }
}

TEST(Threads, NoTeamBesideThePool) {
  const auto count = [] {
    int n = 0;
    for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ++n;
    return n;
  };
  const int before = count();
  for (const int threads : {1, 2, 3}) {
    // The last pipeline's threads leave the process table a moment after they were joined.
    for (int wait = 0; wait < 200 && count() != before; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_EQ(count(), before);
    int most = 0;
    TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = threads});
    VideoCallbacks callbacks;
    callbacks.progress = [&](const Progress&) { most = std::max(most, count()); };
    test::run(pipeline, test::short_request(), callbacks);
    EXPECT_EQ(most, before + threads - 1);
  }
}

// A request is resolved, tokenised and planned once, however often it runs and whatever runs in between.
TEST(Plan, APreparedRequestIsNotPreparedAgain) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  VideoRequest other = test::short_request();
  other.level = "none";  // another arithmetic, for which the model's weights are not packed
  const auto latents_of = [&](const TextToVideo::Prepared& prepared) {
    std::vector<float> out;
    VideoCallbacks callbacks;
    callbacks.latents = [&](std::span<const float> values, std::span<const int64_t>) {
      out.assign(values.begin(), values.end());
    };
    pipeline.generate(prepared, callbacks);
    return out;
  };
  const TextToVideo::Prepared prepared = pipeline.prepare(pipeline.resolved(test::short_request()));
  const TextToVideo::Prepared between = pipeline.prepare(pipeline.resolved(other));
  const auto first = latents_of(prepared), plain = latents_of(between);
  EXPECT_NE(first, plain);
  EXPECT_EQ(latents_of(prepared), first);
  EXPECT_EQ(first, test::run(test::model_path(), test::short_request()).latents);
  EXPECT_EQ(plain, test::run(test::model_path(), other).latents);
  EXPECT_EQ(pipeline.counters().resolved, 2);
  EXPECT_EQ(pipeline.counters().tokenised, 2);
  EXPECT_EQ(pipeline.counters().planned, 2);
}

}  // namespace
}  // namespace tachy
