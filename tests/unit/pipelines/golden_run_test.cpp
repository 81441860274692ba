// Whole runs of the tiny model are compared with diffusers and the original's solvers
// (tests/golden/pipeline/make.py), and across thread counts, weight modes, layouts and repetitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/features.h"
#include "tensor/random.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using test::golden_request;
using test::GoldenFile;
using test::model_path;
using test::Result;

double error_against(const GoldenFile& golden, const std::string& name, Result& result) {
  const Tensor want = golden[name];  // [1, z, T, h, w] or [z, T, h, w]
  EXPECT_EQ(static_cast<int64_t>(result.latents.size()), want.numel());
  return test::error_of(Tensor(result.latents.data(), DType::f32, want.shape()), want);
}

class TwentySteps : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(TwentySteps, FinalLatentsWithin1e5) {
  const auto [sampler, original] = GetParam();
  const GoldenFile golden("pipeline/golden.safetensors");
  VideoRequest request = golden_request();
  request.sampler = sampler;
  for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped}) {
    Result result = test::run(model_path(original), request, {.weights = mode});
    const std::string name = std::string(original ? "original_" : "diffusers_") + sampler;
    const double error = error_against(golden, name, result);
    EXPECT_LE(error, 1e-5) << name;
    RecordProperty(name + (mode == WeightMode::packed ? "_packed" : "_mapped"), fmt::format("{:.2e}", error));
    EXPECT_THAT(result.shape, testing::ElementsAre(16, 2, 4, 6));
  }
}

INSTANTIATE_TEST_SUITE_P(SamplersAndLayouts, TwentySteps,
                         testing::Combine(testing::Values("unipc", "euler", "dpm++"), testing::Bool()));

TEST(TextToVideo, FramesAreTheReferences) {
  const GoldenFile golden("pipeline/golden.safetensors");
  const Tensor want = golden["frames"];
  const Result result = test::run(model_path(), golden_request());
  ASSERT_EQ(static_cast<int64_t>(result.rgb.size()), want.numel());
  int worst = 0;
  int64_t differing = 0;
  for (size_t i = 0; i < result.rgb.size(); ++i) {
    const int apart = std::abs(int{result.rgb[i]} - int{want.as<uint8_t>()[i]});
    worst = std::max(worst, apart), differing += apart != 0;
  }
  EXPECT_LE(worst, 1);
  EXPECT_LE(differing, want.numel() / 500);
}

TEST(TextToVideo, GuidanceOneIsTheConditionalPassAlone) {
  const GoldenFile golden("pipeline/golden.safetensors");
  VideoRequest request = golden_request();
  TextToVideo pipeline(ModelBundle::open(model_path()), {.threads = 2});
  const VideoPlan guided = pipeline.plan(request);
  request.guidance = 1;
  const VideoPlan single = pipeline.plan(request);
  Result result = test::run(pipeline, request);
  EXPECT_LE(error_against(golden, "unguided", result), 1e-5);
  EXPECT_GT(guided.stages[1].flops, 1.7 * single.stages[1].flops);
  EXPECT_LT(single.peak_bytes, guided.peak_bytes);
  // Without guidance the negative prompt has no effect.
  request.negative_prompt = "something else entirely";
  EXPECT_EQ(test::run(pipeline, request).latents, result.latents);
  request.guidance = 4.0;
  EXPECT_NE(test::run(pipeline, request).latents, result.latents);
}

class SameBits : public testing::TestWithParam<const char*> {};

TEST_P(SameBits, WhateverTheThreadsWeightsAndRepetition) {
  const std::string dtype = GetParam();
  if (dtype == "bf16" && ops::why_no_bf16()) GTEST_SKIP() << ops::why_no_bf16()->text();
  VideoRequest request = golden_request();
  request.steps = 4, request.dtype = dtype;
  for (const bool original : {false, true}) {
    TextToVideo pipeline(ModelBundle::open(model_path(original)),
                         {.threads = 1, .weights = WeightMode::packed});
    const Result first = test::run(pipeline, request);
    EXPECT_EQ(first.frames, 5);
    const Result again = test::run(pipeline, request);
    EXPECT_EQ(first.latents, again.latents) << "a second run of the same object";
    EXPECT_EQ(first.rgb, again.rgb);
    for (const int threads : {1, 2, 3})
      for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped}) {
        if (dtype == "bf16" && mode == WeightMode::mapped && threads != 2) continue;  // plain loops are slow
        const Result other = test::run(model_path(original), request,
                                       {.threads = threads, .weights = mode, .keep_loaded = true});
        EXPECT_EQ(first.latents, other.latents) << threads << " threads";
        EXPECT_EQ(first.rgb, other.rgb) << threads << " threads";
      }
  }
}

INSTANTIATE_TEST_SUITE_P(TextToVideo, SameBits, testing::Values("f32", "bf16"));

TEST(TextToVideo, AKeptModelGivesTheSameRunsInAnyOrder) {
  VideoRequest a = test::short_request(), b = test::short_request();
  b.prompt = "the bee sings and moves far away", b.seed = 9, b.width = 48;
  TextToVideo kept(ModelBundle::open(model_path()), {.threads = 2, .keep_loaded = true});
  const Result b1 = test::run(kept, b), a1 = test::run(kept, a), b2 = test::run(kept, b);
  EXPECT_EQ(b1.rgb, b2.rgb);
  EXPECT_EQ(a1.rgb, test::run(model_path(), a).rgb);
  EXPECT_EQ(b1.latents, test::run(model_path(), b).latents);
}

TEST(TextToVideo, InitLatentsStandForTheNoise) {
  VideoRequest request = test::short_request();
  request.seed = 21;
  const Result seeded = test::run(model_path(), request);
  request.init_latents.resize(seeded.latents.size());
  torch_cpu_normal(21, request.init_latents);
  request.seed = 0;
  EXPECT_EQ(test::run(model_path(), request).latents, seeded.latents);
  request.init_latents[3] += 0.5f;
  EXPECT_NE(test::run(model_path(), request).latents, seeded.latents);
  request.init_latents.pop_back();
  EXPECT_THROW(test::run(model_path(), request), Error);
}

TEST(TextToVideo, SeedsAndGeneratorsDiffer) {
  VideoRequest request = test::short_request();
  const Result zero = test::run(model_path(), request);
  request.seed = 1;
  const Result one = test::run(model_path(), request);
  EXPECT_NE(zero.latents, one.latents);
  request.rng = "cuda";
  EXPECT_NE(test::run(model_path(), request).latents, one.latents);
}

TEST(TextToVideo, PreviewsComeOncePerStepAndChangeNothing) {
  VideoRequest request = test::short_request();
  for (const char* sampler : {"unipc", "euler", "dpm++", "lcm"}) {
    request.sampler = sampler, request.steps = 3;
    TextToVideo pipeline(ModelBundle::open(model_path()), {.threads = 2});
    const Result plain = test::run(pipeline, request);
    std::vector<int> steps;
    VideoCallbacks callbacks;
    callbacks.preview = [&](const RgbImage& image, int step) {
      steps.push_back(step);
      EXPECT_EQ(image.width, 2 * 4);  // two latent frames of 4x2 side by side
      EXPECT_EQ(image.height, 2);
      EXPECT_EQ(image.rgb.size(), 8u * 2 * 3);
    };
    const Result watched = test::run(pipeline, request, callbacks);
    EXPECT_THAT(steps, testing::ElementsAre(0, 1, 2)) << sampler;
    EXPECT_EQ(plain.latents, watched.latents) << sampler;
  }
}

TEST(TextToVideo, ProgressRunsThroughTheStages) {
  std::vector<std::string> stages;
  int64_t last_done = 0;
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) {
    if (stages.empty() || stages.back() != p.stage) stages.push_back(p.stage), last_done = 0;
    EXPECT_GE(p.done, last_done);
    EXPECT_LE(p.done, p.total);
    last_done = p.done;
  };
  TextToVideo pipeline(ModelBundle::open(model_path()), {.threads = 1});
  const Result result = test::run(pipeline, test::short_request(), callbacks);
  EXPECT_EQ(result.frames, 5);
  EXPECT_THAT(stages, testing::ElementsAre("text", "load", "denoise", "decode"));
  EXPECT_EQ(last_done, 5);
}

}  // namespace
}  // namespace tachy
