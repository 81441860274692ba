// On a GPU, runs that begin with videos, masks and reference pictures, and runs with the published step caches, are
// those of the references (tests/golden/vace/make.py) and of the CPU. Skipped, with the reason, if there is no GPU.
#include <gtest/gtest.h>

#include "../api/vace_model.h"
#include "host_device.h"

namespace tachy {
namespace {

using test::vace_run;
using test::VaceRun;

// Float32 products of a GPU add in an order of their own, and a run of ten steps gathers the differences.
constexpr double kBound = 2e-5;

const char* why_not() {
  static std::string why;
  return cuda::gpu_count(&why) == 0 ? why.c_str() : nullptr;
}

double error_against(const test::Result& result, const Tensor& want) {
  return test::error_of(Tensor(const_cast<float*>(result.latents.data()), DType::f32, result.shape), want);
}

class FootageOnGpu : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const char* why = why_not()) GTEST_SKIP() << why;
  }
};

TEST_P(FootageOnGpu, LatentsAreTheReferences) {
  const VaceRun run = vace_run(GetParam());
  const test::GoldenFile golden("vace/golden.safetensors");
  const Tensor want = golden[GetParam() + ".latents"];
  const double own = std::stod(golden.source->metadata().at(GetParam() + ".error"));
  Engine engine(run.model, {.keep_loaded = true, .device = "cuda"});
  VideoRequest request = run.request;
  request.dtype = "f32";
  const test::Result result = test::run(engine, request);
  EXPECT_LE(error_against(result, want), std::max(3 * own, kBound));
  EXPECT_EQ(result.frames, 9);
  const test::Result again = test::run(engine, request);
  EXPECT_EQ(again.latents, result.latents);
  EXPECT_EQ(again.rgb, result.rgb);

  // Without graphs the bits are the same.
  Engine plain(run.model, {.device = "cuda", .graphs = false});
  EXPECT_EQ(test::run(plain, request).latents, result.latents) << "without graphs";
}

// The CPU's bf16 rounds in the same places, so its error is what bf16 costs here.
TEST_P(FootageOnGpu, SixteenBitsErrAsOnTheCpu) {
  const VaceRun run = vace_run(GetParam());
  const test::GoldenFile golden("vace/golden.safetensors");
  const Tensor want = golden[GetParam() + ".latents"];
  VideoRequest request = run.request;
  request.dtype = "bf16";
  Engine gpu(run.model, {.device = "cuda"}), cpu(run.model, {.threads = 2});
  const double here = error_against(test::run(gpu, request), want);
  const double there = error_against(test::run(cpu, request), want);
  RecordProperty("errors", fmt::format("{:.2e}, on the CPU {:.2e}", here, there));
  EXPECT_LE(here, 1.5 * there + 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Golden, FootageOnGpu,
                         testing::Values("follow", "inpaint", "references", "all", "outpaint", "keep",
                                         "first_last", "nothing", "experts", "v2v_unipc", "v2v_euler",
                                         "v2v_dpm", "v2v_part"),
                         [](const auto& info) { return info.param; });

class StepCachesOnGpu : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const char* why = why_not()) GTEST_SKIP() << why;
  }
};

TEST_P(StepCachesOnGpu, SkipWhatTheCpuSkips) {
  VideoRequest request = test::golden_request();
  request.sampler = "unipc", request.step_cache_kind = GetParam(), request.dtype = "f32";
  request.step_cache = 0.5;
  Engine gpu(test::model_path(), {.device = "cuda"}), cpu(test::model_path(), {.threads = 2});
  VideoRequest without = request;
  without.step_cache_kind = "rate", without.step_cache = 0;
  const test::Result here = test::run(gpu, request), there = test::run(cpu, request);
  const Tensor want(const_cast<float*>(there.latents.data()), DType::f32, there.shape);
  EXPECT_LE(error_against(here, want), kBound);
  EXPECT_GT(error_against(test::run(cpu, without), want), 1e-4) << "nothing was skipped";
}

INSTANTIATE_TEST_SUITE_P(Kinds, StepCachesOnGpu, testing::Values("easycache", "taylorseer"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tachy
