// Predictions for several GPUs of one host are compared with what two H200s took (bench/notes/several_gpus.md).
#include <gmock/gmock.h>

#include "base/error.h"
#include "time_plan_case.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;

TimePlan plan_of_gpus(const std::string& shape, const VideoRequest& r, int gpus,
                      const std::string& parallel = "auto", const char* gpu = "h200") {
  return plan_time({.model = model(shape).folder,
                    .parts = {},
                    .gpu = gpu,
                    .max_vram = 0,
                    .gpus = gpus,
                    .parallel = parallel},
                   r);
}

VideoRequest aggressive_pass(int width, int height, double guidance) {
  VideoRequest r = one_pass(width, height);
  r.residual.reset();
  r.level = "aggressive", r.guidance = guidance;
  return r;
}

// The cards of these runs took some hundredths more for a pass of the 1.3B than the one that gave the table its rates.
TEST(TimeOfGpus, TwoH200sWithinATenth) {
  const struct {
    const char* shape;
    int width, height;
    double guidance, one, two;
  } measured[] = {{"1.3B", 832, 480, 1, 0.420, 0.227},
                  {"1.3B", 832, 480, 5, 0.823, 0.420},
                  {"14B", 1280, 720, 1, 9.171, 4.767},
                  {"14B", 1280, 720, 5, 18.456, 9.169}};
  for (const auto& m : measured) {
    const VideoRequest r = aggressive_pass(m.width, m.height, m.guidance);
    const TimePlan one = plan_of_gpus(m.shape, r, 1), two = plan_of_gpus(m.shape, r, 2);
    const double before = stage(one, "denoise").middle(), after = stage(two, "denoise").middle();
    const std::string what =
        fmt::format("{} {}p guidance {}: {:.3f} and {:.3f} s", m.shape, m.height, m.guidance, before, after);
    EXPECT_NEAR(before / m.one, 1, 0.1) << what;
    EXPECT_NEAR(after / m.two, 1, 0.1) << what;
    EXPECT_NEAR(before / after / (m.one / m.two), 1, 0.03) << what;
    EXPECT_EQ(two.plan.parallel.text(), m.guidance > 1 ? "cfg=2,ulysses=1,ring=1" : "cfg=1,ulysses=2,ring=1");
    EXPECT_EQ(two.plan.ranks.size(), 2u);
    RecordProperty(fmt::format("{}_{}_{}", m.shape, m.height, m.guidance), what);
  }
}

// One H200 takes 368.7 ms for a steady block of Self-Forcing, with its frames (bench/notes/worlds_gpu.md).
TEST(TimeOfGpus, BlocksOnTwoTakeThreeFifths) {
  VideoRequest r = aggressive_pass(832, 480, 1);
  r.sampler = "self-forcing-4", r.steps.reset(), r.block = 3, r.block_window = 21;
  double block[2];  // seconds, by the plans of 90 and of 30 blocks
  for (const int gpus : {1, 2}) {
    double seconds[2];
    for (const int blocks : {30, 90}) {
      r.frames = 12 * blocks - 3;
      seconds[blocks == 90] = stage(plan_of_gpus("1.3B", r, gpus), "denoise").middle();
    }
    block[gpus - 1] = (seconds[1] - seconds[0]) / 60;
    RecordProperty(fmt::format("ms_of_a_block_on_{}", gpus), fmt::format("{:.1f}", 1000 * block[gpus - 1]));
  }
  EXPECT_NEAR(block[0] / 0.3687, 1, 0.1) << block[0];
  EXPECT_LT(block[1], 0.65 * block[0]);
  EXPECT_GT(block[1], 0.5 * block[0]) << "exchanges cost nothing";
}

TEST(TimeOfGpus, MoreOfThemTakeLessTimeAndExchangeMore) {
  const VideoRequest r = aggressive_pass(1280, 720, 5);
  double before = 2 * stage(plan_of_gpus("14B", r, 1), "denoise").middle();
  for (int gpus : {1, 2, 4, 8}) {
    const double now = stage(plan_of_gpus("14B", r, gpus), "denoise").middle();
    EXPECT_LT(now, 0.56 * before) << gpus;
    EXPECT_GT(now, 0.47 * before) << gpus << ": no more than their number";
    before = now;
  }
  const auto exchanged = [&](const char* parallel) {
    double bytes = 0;
    for (const TimePlan::Stage& s : plan_of_gpus("14B", r, 4, parallel).stages)
      for (const OpWork& w : s.work)
        if (w.op == "exchange") bytes += static_cast<double>(w.calls) * w.bytes;
    return bytes;
  };
  EXPECT_GT(exchanged("ulysses=4"), 1.2 * exchanged("cfg=2,ulysses=2"));
  EXPECT_GT(exchanged("cfg=2,ulysses=2"), 1e10);
}

// Attention of a long clip is called with so many heads that a GPU with half of them makes the same calls.
TEST(TimeOfGpus, SaysWhereBitsDifferFromThoseOfOneGpu) {
  const VideoRequest large = aggressive_pass(1280, 720, 5);
  const struct {
    const char* shape;
    VideoRequest request;
    int gpus;
    bool equal;
  } cases[] = {{"14B", large, 1, true},
               {"14B", large, 2, true},
               {"14B", large, 4, true},
               {"1.3B", aggressive_pass(832, 480, 1), 2, true},
               {"1.3B", aggressive_pass(832, 480, 1), 5, false},  // 12 heads do not divide
               {"1.3B", aggressive_pass(256, 256, 1), 2, false},
               {"1.3B", aggressive_pass(256, 256, 5), 2, false}};
  for (const auto& c : cases) {
    const VideoPlan plan = plan_of_gpus(c.shape, c.request, c.gpus).plan;
    EXPECT_EQ(plan.equal_bits, c.equal) << c.shape << " on " << c.gpus << ": " << plan.parallel_why;
    EXPECT_EQ(plan.parallel_why.find("last bits") == std::string::npos, c.equal) << plan.parallel_why;
  }
}

// Each has a part of every frame, so four latent frames need no more room than one GPU has for two.
TEST(TimeOfGpus, DecodeFourLatentFramesAtATime) {
  const VideoRequest r = aggressive_pass(1280, 720, 1);
  for (const char* gpu : {"h100", "h200"}) {
    uint64_t one = 0;
    for (const int gpus : {1, 2, 4, 8}) {
      const VideoPlan plan = plan_of_gpus("14B", r, gpus, "auto", gpu).plan;
      const StagePlan& decode = stage_plan(plan, "decode");
      const uint64_t bytes = decode.weight_bytes + decode.arena_bytes;
      EXPECT_EQ(plan.vae_latents, gpus == 1 ? 2 : 4) << gpus << " of " << gpu;
      if (gpus == 1) one = bytes;
      EXPECT_LT(bytes, one + one / 10) << gpus << " of " << gpu;
      RecordProperty(fmt::format("decode_of_{}_{}", gpus, gpu), std::to_string(bytes >> 20));
      RecordProperty(fmt::format("peak_of_{}_{}", gpus, gpu), std::to_string(plan.peak_bytes >> 20));
    }
  }
}

TEST(TimeOfGpus, NothingIsPredictedWhereTheExchangeIsUnknown) {
  try {
    plan_of_gpus("1.3B", aggressive_pass(832, 480, 1), 2, "auto", "l4");
    FAIL() << "nobody has timed an exchange between two L4";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_THAT(e.message(),
                testing::AllOf(HasSubstr("`gpus`"), HasSubstr("NVIDIA L4"), HasSubstr("NVLink")));
  }
  for (const int wrong : {0, -1, 100'000})
    EXPECT_THROW(plan_of_gpus("1.3B", aggressive_pass(832, 480, 1), wrong), Error) << wrong;
  EXPECT_THROW(plan_of_gpus("1.3B", aggressive_pass(832, 480, 1), 2, "cfg=2"), Error)
      << "there is one branch";
  EXPECT_THROW(plan_of_gpus("1.3B", aggressive_pass(832, 480, 5), 4, "cfg=2"), Error) << "that makes two";
}

}  // namespace
}  // namespace tachy::test
