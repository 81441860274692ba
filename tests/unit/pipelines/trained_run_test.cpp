// Whole runs of a tiny model with the layers of Video Sparse Attention: it attends as it was trained unless the
// request says otherwise, and a run has the same bits for any threads, from any of its states, and within its plan.
// (wan_trained_test.cpp compares the attention itself with PyTorch.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trained_model.h"

namespace tachy {
namespace {

using testing::HasSubstr;

const std::string& trained_model() {
  static const test::ScratchFolder scratch;
  static const std::string path = [] {
    const auto folder = test::model_copy(scratch);
    test::add_trained_layers(folder, TrainedSparse::cubes, 2, 24, 12);
    return folder.string();
  }();
  return path;
}

// 5x6x6 tokens are eight cubes, of which a fifth is two.
VideoRequest wide_request() {
  VideoRequest r = test::short_request();
  r.width = 96, r.height = 96, r.frames = 17, r.steps = 3, r.guidance = 4;
  return r;
}

TEST(TrainedRuns, AttendAsTheModelWasTrained) {
  TextToVideo pipeline(ModelBundle::open(trained_model()), {.threads = 2});
  const VideoRequest request = wide_request();
  const VideoRequest filled = pipeline.resolved(request).request;
  EXPECT_EQ(filled.sparse_attention, 0.2);
  EXPECT_EQ(filled.sparse_chooser, "trained");
  EXPECT_EQ(filled.sparse_dense_steps, 0);
  const test::Result own = test::run(pipeline, request);
  VideoRequest dense = request, other = request;
  dense.sparse_attention = 0, other.sparse_attention = 0.5;
  const test::Result all = test::run(pipeline, dense);
  EXPECT_GT(test::furthest(own.latents, all.latents), 1e-3);
  EXPECT_NE(own.latents, test::run(pipeline, other).latents) << "four cubes";
  EXPECT_EQ(all.latents, test::run(test::model_path(), request).latents) << "without the layers";
}

TEST(TrainedRuns, HaveTheSameBitsWithinThePlan) {
  const VideoRequest request = wide_request();
  const test::Result one = test::run(trained_model(), request, {.threads = 1});
  for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped}) {
    TextToVideo pipeline(ModelBundle::open(trained_model()), {.threads = 3, .weights = mode});
    const VideoPlan plan = pipeline.plan(request);
    const size_t before = Buffer::live_bytes();
    Buffer::reset_peak();
    EXPECT_EQ(test::run(pipeline, request).latents, one.latents);
    EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes);
  }
  // Two ranks take a branch of guidance each; four would divide the tokens.
  EXPECT_EQ(test::run(trained_model(), request, {.threads = 2, .ranks = 2}).latents, one.latents);
  EXPECT_THAT(test::refusal([&] { test::run(trained_model(), request, {.threads = 4, .ranks = 4}); },
                            ErrorCode::unsupported),
              HasSubstr("as the model was trained"));
}

TEST(TrainedRuns, WhatCannotBeIsRefused) {
  VideoRequest request = wide_request();
  request.sparse_chooser = "trained", request.sparse_attention = 0.5;
  EXPECT_THAT(test::refusal([&] { test::run(test::model_path(), request); }, ErrorCode::invalid_argument),
              HasSubstr("was not trained with sparse attention"));
}

}  // namespace
}  // namespace tachy
