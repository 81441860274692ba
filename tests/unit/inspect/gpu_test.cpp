// Tests on a GPU: doctor's picks and self-test, and a generation of the shipped model that gives the same
// bits again, with and without graphs, with and without a profiler. Skipped if there is no GPU.
#include "cuda/gpu.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/text_to_video.h"
#include "inspect/doctor.h"
#include "inspect/golden_set.h"
#include "report/profile_report.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;

const fs::path kModel = fs::path(TACHY_SOURCE_DIR) / "models/sprites";

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
  }
};

struct Video {
  std::vector<float> latents;
  std::vector<uint8_t> rgb;
  int reused = 0;
};

Video generate(const std::string& level, bool graphs, Profiler* profiler = nullptr, int steps = 6,
               std::optional<std::string> dtype = {}) {
  TextToVideo pipeline(ModelBundle::open(kModel), {.threads = 2, .device = "cuda", .graphs = graphs});
  VideoRequest request;
  request.prompt = "a red circle moves right over hills at day";
  request.seed = 3;
  request.steps = steps;
  request.level = level;
  request.dtype = dtype;
  Video run;
  VideoCallbacks callbacks;
  callbacks.profiler = profiler;
  callbacks.latents = [&](std::span<const float> values, std::span<const int64_t>) {
    run.latents.assign(values.begin(), values.end());
  };
  callbacks.frame = [&](const RgbImage& image, int64_t) {
    run.rgb.insert(run.rgb.end(), image.rgb.begin(), image.rgb.end());
  };
  run.reused = pipeline.generate(request, callbacks).steps_reused;
  return run;
}

double psnr(const Video& a, const Video& b) {
  return a.rgb.size() == b.rgb.size() ? frame_distance(a.rgb.data(), b.rgb.data(), a.rgb.size()).psnr : 0;
}

TEST_F(OnGpu, SafeRepeatsItselfToTheBit) {
  if (!fs::exists(kModel)) GTEST_SKIP() << kModel << " is not here";
  const Video first = generate("safe", true);
  ASSERT_FALSE(first.rgb.empty());
  for (int i = 0; i < 2; ++i) {
    const Video again = generate("safe", true);
    EXPECT_EQ(first.latents, again.latents);
    EXPECT_EQ(first.rgb, again.rgb);
  }
  const Video eager = generate("safe", false);
  EXPECT_EQ(first.latents, eager.latents) << "a replayed step gives what the step gives";
  EXPECT_EQ(first.rgb, eager.rgb);
  RunProfiler profiler;
  const Video profiled = generate("safe", true, &profiler);
  EXPECT_EQ(first.latents, profiled.latents) << "profiling changes nothing";
  const ProfileReport device = summarise(profiler.all_events(), true);
  int steps = 0, attention = 0;
  for (const ProfileRow& r : device.rows) {
    if (r.name() == "step") steps = static_cast<int>(r.count);
    if (r.kind == ProfileKind::attention) ++attention;
  }
  EXPECT_EQ(steps, 6);
  EXPECT_GE(attention, 2) << profile_tables(profiler.all_events());
}

TEST_F(OnGpu, LevelsDifferAsTheySay) {
  if (!fs::exists(kModel)) GTEST_SKIP() << kModel << " is not here";
  const Video none = generate("none", true, nullptr, 20), safe = generate("safe", true, nullptr, 20),
              aggressive = generate("aggressive", true, nullptr, 20),
              extreme = generate("extreme", true, nullptr, 20);
  EXPECT_NE(none.latents, safe.latents);
  EXPECT_NE(safe.latents, aggressive.latents) << "the residual stream in bf16";
  EXPECT_GT(psnr(safe, none), 30);
  EXPECT_GT(psnr(aggressive, none), 25);
  EXPECT_EQ(none.reused + safe.reused + aggressive.reused, 0);
  EXPECT_GT(extreme.reused, 0);
  EXPECT_GT(psnr(extreme, none), 20);
  EXPECT_GT(psnr(generate("safe", true, nullptr, 20, "f16"), none), 35);
}

TEST_F(OnGpu, DoctorKnowsWhatRunsHere) {
  const DoctorReport report = run_doctor("safe", 0, "cuda");
  EXPECT_EQ(report.gpu.dtype, "bf16");
  EXPECT_FALSE(report.gpu.name.empty());
  EXPECT_GT(report.gpu.memory_bytes, size_t{1} << 30);
  EXPECT_EQ(report.gpu.libraries.size(), 2u);
  EXPECT_GE(report.ops.size(), 15u);
  for (const OpHealth& h : report.ops) {
    EXPECT_TRUE(h.ok) << h.failure;
    EXPECT_NE(h.pick, "none") << h.op;
    EXPECT_NE(h.pick, "ref") << h.op;
  }
  ASSERT_EQ(report.levels.size(), 4u);
  EXPECT_TRUE(report.levels[1].active);
}

}  // namespace
}  // namespace tachy
