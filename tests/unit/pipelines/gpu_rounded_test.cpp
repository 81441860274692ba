// Tests products in 8 bits whose codes are not made in the default place: those of weights on the GPU during
// loading, those of activations in the preceding norm. The latents keep their bits. Skipped, with the reason,
// if there is no GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/env.h"
#include "engine/text_to_video.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using test::kLibraries;

class RoundedOnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why;
    if (cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
    if (cuda::open_gpu()->info().capability() < 80) GTEST_SKIP() << "the layers' 8 bits need bf16";
    request.prompt = "a red circle moves right";
    request.width = request.height = 64, request.frames = 5, request.steps = 4;
    request.math = GetParam(), request.level = "aggressive";
  }
  void TearDown() override {
    ::unsetenv("TACHY_ROUND_WEIGHTS");
    ::unsetenv("TACHY_NORM_CODES");
  }
  static std::unique_ptr<TextToVideo> open(TextToVideo::Options options = {}) {
    const std::filesystem::path models = env_string("TACHY_MODEL_DIR", TACHY_TEST_MODELS);
    options.device = "cuda";
    return std::make_unique<TextToVideo>(ModelBundle::open((models / "sprites").string()), options);
  }
  VideoRequest request;
};

TEST_P(RoundedOnGpu, WeightsOnTheirWayThere) {
  const auto want = test::run(*open(), request).latents;
  ::setenv("TACHY_ROUND_WEIGHTS", "device", 1);
  const auto whole = open();
  EXPECT_EQ(test::run(*whole, request).latents, want);
  EXPECT_EQ(whole->gpu()->live_bytes(), 0u) << "what it takes for rounding is given back";
  int64_t streamed = 0;  // codes of streamed blocks are made on the host, those of the others on the GPU
  const uint64_t peak = whole->plan(request).peak_bytes, step = peak / 16 + 1;
  for (uint64_t budget = peak; budget > step; budget -= step) {
    const auto tight = open({.max_vram = budget + kLibraries});
    const VideoPlan now = tight->plan(request);
    if (now.peak_bytes > budget) continue;
    EXPECT_EQ(test::run(*tight, request).latents, want) << budget;
    for (const StagePlan& s : now.stages) streamed = std::max(streamed, s.streamed);
  }
  EXPECT_GT(streamed, 0) << "no budget streamed a block";
}

TEST_P(RoundedOnGpu, ActivationsInTheNormBefore) {
  ::setenv("TACHY_NORM_CODES", "0", 1);
  const auto want = test::run(*open(), request).latents;
  ::unsetenv("TACHY_NORM_CODES");
  for (const bool graphs : {true, false}) {
    const auto with = open({.graphs = graphs});
    std::string picks;
    for (const StagePlan& stage : with->plan(request).stages)
      for (const ops::OpPick& pick : stage.picks)
        if (pick.op == "add_norm") picks += pick.impl + " ";
    // With int8 no norm makes codes, and the last norm of a pass belongs to the head.
    EXPECT_EQ(picks.find("codes") != std::string::npos, request.math == "fp8") << picks;
    EXPECT_EQ(test::run(*with, request).latents, want);
    EXPECT_EQ(with->gpu()->peak_bytes(), with->plan(request).peak_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Products, RoundedOnGpu, testing::Values("fp8", "int8"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tachy
