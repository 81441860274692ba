// Tests runs whose denoising passes are divided among ranks: they have the bits of a single rank, within the
// plan, for every kind of clip that supports ranks; other kinds are refused with a reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experts_model.h"
#include "image_model.h"
#include "talk_model.h"

namespace tachy {
namespace {

using testing::HasSubstr;

void expect_bits_of_one(const std::string& model, const VideoRequest& request, const std::string& what,
                        std::initializer_list<int> counts = {2, 3}, TextToVideo::Options options = {}) {
  options.threads = 2;
  const test::Result one = test::run(model, request, options);
  for (const int ranks : counts)
    for (const int threads : {1, 4}) {
      options.ranks = ranks, options.threads = threads;
      TextToVideo pipeline(ModelBundle::open(model), options);
      const VideoPlan plan = pipeline.plan(request);
      const size_t before = Buffer::live_bytes();
      Buffer::reset_peak();
      const test::Result divided = test::run(pipeline, request);
      EXPECT_EQ(divided.latents, one.latents) << what << ", " << ranks << " ranks, " << threads << " threads";
      EXPECT_EQ(divided.rgb, one.rgb) << what;
      if (options.keep_loaded)
        EXPECT_LE(Buffer::peak_bytes() - before, plan.peak_bytes) << what;
      else
        EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes) << what << ", " << ranks << " ranks";
    }
}

TEST(RankRuns, OfATextHaveTheBitsOfOne) {
  VideoRequest request = test::short_request();
  request.guidance = 1;
  expect_bits_of_one(test::model_path(), request, "without guidance", {2, 3, 5, 16});
  request.guidance = 5;
  expect_bits_of_one(test::model_path(), request, "with guidance", {2, 3, 4, 16});
  request.without = {"batched-guidance"};
  expect_bits_of_one(test::model_path(), request, "a branch at a time", {3, 4});
  request.without = {}, request.step_cache = 0.5, request.steps = 6;
  expect_bits_of_one(test::model_path(), request, "with the step cache", {4});
}

TEST(RankRuns, InOtherNumbersToo) {
  VideoRequest request = test::short_request();
  request.guidance = 5;
  request.dtype = "bf16";
  expect_bits_of_one(test::model_path(), request, "bf16");
  request.dtype.reset(), request.math = "int8";
  expect_bits_of_one(test::model_path(), request, "int8");
  request.math = "auto", request.level = "none";
  expect_bits_of_one(test::model_path(), request, "the definitions", {3});
}

TEST(RankRuns, WhereTheModelStaysLoadedAndWithoutTheArena) {
  VideoRequest request = test::short_request();
  request.guidance = 5;
  expect_bits_of_one(test::model_path(), request, "kept", {3}, {.keep_loaded = true});
  TextToVideo pipeline(ModelBundle::open(test::model_path()),
                       {.threads = 2, .ranks = 3, .keep_loaded = true});
  const test::Result first = test::run(pipeline, request), again = test::run(pipeline, request);
  EXPECT_EQ(first.rgb, again.rgb);
  const test::Result apart = test::run(test::model_path(), request, {.ranks = 3, .arena = false});
  EXPECT_EQ(apart.rgb, first.rgb);
}

TEST(RankRuns, OfPicturesTwoExpertsAndWindowsHaveTheBitsOfOne) {
  for (const std::string& name : test::image_runs()) {
    const test::ImageRun run = test::image_run(name);
    expect_bits_of_one(run.model, run.request, name);
  }
  const test::ExpertsRun experts = test::experts_run("t2v_unipc");
  expect_bits_of_one(experts.model, experts.request, "experts");
  VideoRequest windows = test::short_request();
  windows.frames = 33, windows.windows = "static", windows.window_frames = 17, windows.window_overlap = 8;
  windows.guidance = 5;
  expect_bits_of_one(test::model_path(), windows, "windows");
}

TEST(RankRuns, ThePlanTellsEachShare) {
  VideoRequest request = test::short_request();
  request.guidance = 5;
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 5, .ranks = 4});
  const VideoPlan plan = pipeline.plan(request);
  ASSERT_EQ(plan.ranks.size(), 4U);
  const WanConfig& c = pipeline.model().dit;
  int64_t threads = 0;
  for (size_t i = 0; i < 4; ++i) {
    const RankPlan& rank = plan.ranks[i];
    threads += rank.threads;
    EXPECT_EQ(rank.branches, 1);
    EXPECT_EQ(rank.first_row, i > 0 ? plan.ranks[i - 1].first_row + plan.ranks[i - 1].rows : 0);
    EXPECT_EQ(rank.first_branch, static_cast<int64_t>(i / 2));
    if (i % 2 == 0) continue;
    EXPECT_EQ(rank.first_token, plan.ranks[i - 1].tokens);
    EXPECT_EQ(rank.first_head + rank.heads, c.num_heads);
  }
  EXPECT_EQ(threads, 5);
  EXPECT_EQ(plan.ranks[3].first_row + plan.ranks[3].rows,
            *request.height / pipeline.model().vae_config.spatial_stride());
  EXPECT_TRUE(TextToVideo(ModelBundle::open(test::model_path()), {.threads = 1}).plan(request).ranks.empty());
}

TEST(RankRuns, AStopEndsAllOfThem) {
  VideoRequest request = test::short_request();
  request.steps = 50;
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2, .ranks = 4});
  std::atomic<bool> cancel = false;
  VideoCallbacks callbacks{.cancel = &cancel};
  callbacks.progress = [&](const Progress& p) { cancel = cancel || (p.stage == "denoise" && p.done == 2); };
  const size_t before = Buffer::live_bytes();
  try {
    test::run(pipeline, request, callbacks);
    ADD_FAILURE() << "not cancelled";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::cancelled);
  }
  EXPECT_EQ(Buffer::live_bytes(), before);
}

}  // namespace
}  // namespace tachy
