// Tests runs with block-sparse attention: the plan (memory, calls, work), resuming, which steps are dense,
// and what a request states.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tiny_model.h"

namespace tachy {
namespace {

using testing::HasSubstr;

// 13 frames of 224x160 are 4 x 10 x 14 tokens: five blocks. Two of six steps are dense.
VideoRequest sparse_request(const std::string& chooser = "top-k") {
  VideoRequest r = test::short_request();
  r.width = 224, r.height = 160, r.frames = 13, r.steps = 6, r.guidance = 5;
  r.sparse_attention = 0.4, r.sparse_chooser = chooser, r.sparse_dense_steps = 2;
  return r;
}

class SparseRun : public testing::TestWithParam<std::string> {};

TEST_P(SparseRun, MemoryAndCallsAreThePlans) {
  for (const int threads : {1, 3})
    for (const int dense_steps : {0, 2, 6}) {
      TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = threads});
      VideoRequest request = sparse_request(GetParam());
      request.sparse_dense_steps = dense_steps;
      const VideoPlan plan = pipeline.plan(request);
      const size_t before = Buffer::live_bytes();
      Buffer::reset_peak();
      using Calls = std::map<std::string, int64_t>;
      const auto calls_of = [](const std::string& stage, const std::vector<ops::OpPick>& picks,
                               Calls& calls) {
        for (const ops::OpPick& pick : picks) calls[stage + " " + pick.op + " " + pick.impl] += pick.calls;
      };
      Calls planned, ran;
      for (const StagePlan& stage : plan.stages) calls_of(stage.name, stage.picks, planned);
      VideoCallbacks callbacks;
      callbacks.picks = [&](const std::string& stage, const auto& picks) { calls_of(stage, picks, ran); };
      test::run(pipeline, request, callbacks);
      EXPECT_EQ(ran, planned);
      EXPECT_EQ(Buffer::live_bytes(), before);
      EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes)
          << threads << " threads, " << dense_steps << " dense steps";
    }
}

TEST_P(SparseRun, GoesOnInTheMiddle) {
  const VideoRequest request = sparse_request(GetParam());
  std::vector<RunState> states;
  VideoCallbacks callbacks;
  callbacks.state = [&](const RunStateView& v) {
    RunState& s = states.emplace_back();
    s.step = v.step, s.latents.assign(v.latents.begin(), v.latents.end()), s.generator = v.generator;
    for (const auto& t : v.solver) s.solver.emplace_back(t.begin(), t.end());
  };
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  const auto whole = test::run(pipeline, request, callbacks);
  ASSERT_EQ(states.size(), 6u);
  // The states are from before, at and after the last dense step.
  for (const size_t i : {size_t{0}, size_t{1}, size_t{2}, size_t{4}}) {
    test::Result rest;
    VideoCallbacks last;
    last.latents = [&](std::span<const float> values, std::span<const int64_t>) {
      rest.latents.assign(values.begin(), values.end());
    };
    pipeline.generate(request, last, &states[i]);
    EXPECT_EQ(rest.latents, whole.latents) << "after step " << states[i].step;
  }
}

TEST_P(SparseRun, RepeatsItselfAndLeavesKeysOut) {
  const VideoRequest request = sparse_request(GetParam());
  const auto one = test::run(test::model_path(), request, {.threads = 1}),
             three = test::run(test::model_path(), request, {.threads = 3});
  EXPECT_EQ(one.latents, three.latents);
  VideoRequest dense = request;
  dense.sparse_attention = 0;
  EXPECT_NE(test::run(test::model_path(), dense).latents, one.latents);
}

INSTANTIATE_TEST_SUITE_P(Choosers, SparseRun, testing::Values("top-k", "sliding-tile"),
                         [](const auto& info) { return info.param == "top-k" ? "TopK" : "SlidingTile"; });

// If all blocks are listed, or all steps are dense, only the order of tokens remains, which changes nothing
// but rounding.
TEST(SparseRequest, OfEverythingIsDense) {
  VideoRequest request = sparse_request();
  request.sparse_attention = 0;
  const auto dense = test::run(test::model_path(), request).latents;
  request.sparse_attention = 1;
  EXPECT_LT(test::furthest(test::run(test::model_path(), request).latents, dense), 2e-4);
  request.sparse_attention = 0.4, request.sparse_dense_steps = 6;
  EXPECT_LT(test::furthest(test::run(test::model_path(), request).latents, dense), 2e-4);
}

TEST(SparseRequest, CountsItsWork) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  const auto flops = [&](double share, int dense_steps) {
    VideoRequest request = sparse_request();
    request.sparse_attention = share, request.sparse_dense_steps = dense_steps;
    for (const StagePlan& s : pipeline.plan(request).stages)
      if (s.name == "denoise") return s.flops;
    return 0.0;
  };
  const double dense = flops(0, 0), two = flops(0.4, 0);
  // Two of five blocks are listed, with 128 of 560 keys each, first in all six steps, then in four of them.
  const double attention = (dense - two) / (1 - 256.0 / 560);
  EXPECT_GT(attention, 0);
  EXPECT_NEAR(flops(1, 0), dense, dense * 1e-9);
  EXPECT_NEAR(flops(0.6, 0), dense - attention * (1 - 384.0 / 560), dense * 1e-6);
  EXPECT_NEAR(flops(0.4, 2), dense - attention * (1 - 256.0 / 560) * 4 / 6, dense * 1e-6);
}

TEST(SparseRequest, IsFilledInAndChecked) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  VideoRequest request = test::short_request();
  EXPECT_EQ(pipeline.resolved(request).request.sparse_attention, 0.0) << "off";
  request.sparse_attention = 0.3, request.steps = 20;
  const VideoRequest filled = pipeline.resolved(request).request;
  EXPECT_EQ(filled.sparse_chooser, "top-k");
  EXPECT_EQ(filled.sparse_dense_steps, 5);
  const auto refused = [&](auto&& change, const char* text) {
    VideoRequest wrong = request;
    change(wrong);
    try {
      pipeline.resolved(wrong);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), HasSubstr(text));
    }
  };
  refused([](VideoRequest& r) { r.sparse_attention = 1.5; }, "sparse");
  refused([](VideoRequest& r) { r.sparse_attention = -0.1; }, "sparse");
  refused([](VideoRequest& r) { r.sparse_chooser = "bottom"; }, "top-k");
  refused([](VideoRequest& r) { r.sparse_dense_steps = -1; }, "dense");
}

}  // namespace
}  // namespace tachy
