// A talking photo on a GPU equals the one on the CPU, with or without graphs, resident or with streamed
// blocks, kept loaded or not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/gpu.h"
#include "talk_model.h"

namespace tachy {
namespace {

using test::talk;

class TalkOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
    request.dtype = "f32";
  }
  test::Result run(ModelOptions options) {
    options.device = "cuda";
    TextToVideo pipeline(model.open(), options);
    return talk(pipeline, request);
  }

  test::TalkModel model;
  VideoRequest request = test::talk_request(16);  // windows begin at 0, 4 and 8
};

TEST_F(TalkOnGpu, IsAsOnTheCpu) {
  request.dtype.reset();
  TextToVideo on_cpu(model.open(), {.threads = 2});
  const test::Result want = talk(on_cpu, request);
  double size = 0;
  for (const float v : want.latents) size = std::max(size, std::abs(double{v}));
  for (const auto& [dtype, bound] :
       {std::pair{"f32", 1e-4}, std::pair{"f16", 5e-2}, std::pair{"bf16", 0.3}}) {
    request.dtype = dtype;
    const test::Result got = run({});
    EXPECT_EQ(got.frames, 16);
    const double error = test::furthest(got.latents, want.latents) / size;
    EXPECT_LE(error, bound) << dtype;
    RecordProperty(dtype, fmt::format("{:.2e}", error));
  }
}

TEST_F(TalkOnGpu, TwoSpeakersAreAsOnTheCpu) {
  request = test::two_talk(16);
  TextToVideo on_cpu(model.open(), {.threads = 2});
  const test::Result want = test::talk_of_two(on_cpu, request);
  double size = 0;
  for (const float v : want.latents) size = std::max(size, std::abs(double{v}));
  request.dtype = "f32";
  for (const bool graphs : {false, true}) {
    TextToVideo pipeline(model.open(), {.keep_loaded = graphs, .device = "cuda", .graphs = graphs});
    // A graph of the first request serves the second one, which has other regions.
    for (const int64_t left : {1, 0}) {
      const test::Result got = test::talk_of_two(pipeline, request, left);
      if (left == 0) {
        EXPECT_LE(test::furthest(got.latents, want.latents) / size, 1e-4)
            << (graphs ? "graphs" : "no graphs");
      }
    }
  }
}

TEST_F(TalkOnGpu, BitsAreTheSameHoweverItRuns) {
  const test::Result first = run({});
  EXPECT_EQ(run({}).rgb, first.rgb);
  EXPECT_EQ(run({.graphs = false}).rgb, first.rgb);
  TextToVideo kept(model.open(), {.keep_loaded = true, .device = "cuda"});
  EXPECT_EQ(talk(kept, request).rgb, first.rgb);
  const int captured = kept.counters().captured;
  EXPECT_GE(captured, 1);
  EXPECT_LE(captured, 1) << "one graph serves all windows";
  EXPECT_EQ(talk(kept, request).rgb, first.rgb);
  EXPECT_EQ(kept.counters().captured, captured) << "and the next video";
}

TEST_F(TalkOnGpu, GoesOnFromEachStateOfEachWindow) {
  request.sampler = "lcm";
  std::vector<RunState> states;
  VideoCallbacks callbacks;
  callbacks.state = [&](const RunStateView& view) { states.push_back(test::copy_of(view)); };
  TextToVideo whole(model.open(), {.device = "cuda"});
  const test::Result want = talk(whole, request, callbacks);
  ASSERT_EQ(states.size(), 8u);
  for (const RunState& state : states)
    for (const bool kept : {false, true}) {
      TextToVideo pipeline(model.open(), {.keep_loaded = kept, .device = "cuda"});
      const test::Result rest = talk(pipeline, request, {}, &state);
      EXPECT_EQ(rest.latents, want.latents) << state.step << " of window " << state.window;
      const size_t before = want.rgb.size() / 16 * static_cast<size_t>(state.frames);
      EXPECT_TRUE(std::ranges::equal(rest.rgb, std::span(want.rgb).subspan(before)));
    }
}

TEST_F(TalkOnGpu, PlanIsExact) {
  const auto open = [&] {
    return std::make_unique<TextToVideo>(model.open(), ModelOptions{.device = "cuda"});
  };
  const auto pipeline = open();
  Resolved r = pipeline->resolved(request);
  r.speech = request.speech->samples;
  const VideoPlan plan = pipeline->prepare(r).plan;
  EXPECT_EQ(talk(*pipeline, request).frames, 16);
  EXPECT_EQ(pipeline->gpu()->peak_bytes(), plan.peak_bytes);
}

}  // namespace
}  // namespace tachy
