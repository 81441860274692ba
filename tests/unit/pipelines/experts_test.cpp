// Models with two experts are compared with diffusers' WanPipeline and WanImageToVideoPipeline and the
// original's solvers (tests/golden/experts/make.py). The tests also cover the plan, what stays loaded and
// what is exchanged, and resuming in either part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deep_model.h"
#include "experts_model.h"
#include "host_device.h"
#include "resolve/resolve.h"
#include "session/fingerprint.h"

namespace tachy {
namespace {

using test::experts_model;
using test::experts_run;
using test::ExpertsRun;
using test::GoldenFile;
using test::HostDevice;
using test::kPlenty;
using testing::ElementsAre;
using testing::HasSubstr;

class ExpertRuns : public testing::TestWithParam<std::string> {};

TEST_P(ExpertRuns, LatentsAreTheReferences) {
  const ExpertsRun run = experts_run(GetParam());
  const GoldenFile golden("experts/golden.safetensors");
  const Tensor want = golden[GetParam() + ".latents"];
  std::vector<float> first;
  for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped})
    for (const int threads : {1, 3}) {
      test::Result result = test::run(run.model, run.request, {.threads = threads, .weights = mode});
      const double error = test::error_of(Tensor(result.latents.data(), DType::f32, result.shape), want);
      EXPECT_LE(error, 1e-5);
      if (first.empty()) first = result.latents;
      EXPECT_EQ(result.latents, first) << threads << " threads";
    }
}

TEST_P(ExpertRuns, PlanIsExactAndTheExpertsChangeOverOnce) {
  const ExpertsRun run = experts_run(GetParam());
  for (const double step_cache : {0.0, 0.2}) {
    VideoRequest request = run.request;
    request.step_cache = step_cache;
    TextToVideo pipeline(ModelBundle::open(run.model), {.threads = 2, .weights = WeightMode::packed});
    const VideoPlan plan = pipeline.plan(request);
    std::vector<std::string> order;
    VideoCallbacks callbacks;
    callbacks.progress = [&](const Progress& p) {
      if (p.stage == "load" && p.done == 0) order.push_back("load");
      if (p.stage == "denoise" && p.done > 0) order.push_back(fmt::format("{}", p.done));
    };
    const size_t before = Buffer::live_bytes();
    Buffer::reset_peak();
    test::run(pipeline, request, callbacks);
    EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes);
    EXPECT_EQ(Buffer::live_bytes(), before);
    std::vector<std::string> want;
    for (int i = 0; i < *request.steps; ++i) {
      if (i == 0 || i == run.high_noise_steps) want.push_back("load");
      want.push_back(fmt::format("{}", i + 1));
    }
    EXPECT_EQ(order, want);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ExpertRuns,
                         testing::Values("t2v_unipc", "t2v_euler", "t2v_half_guided", "i2v_unipc",
                                         "t2v_original", "i2v_original"),
                         [](const auto& info) { return info.param; });

// A step without guidance is one pass instead of two.
TEST(Experts, EachHasItsOwnGuidance) {
  const ExpertsRun run = experts_run("t2v_half_guided");
  TextToVideo pipeline(ModelBundle::open(run.model), {.threads = 2});
  const auto flops = [&](double high, double low) {
    VideoRequest r = run.request;
    r.guidance = high, r.guidance_2 = low;
    const VideoPlan plan = pipeline.plan(r);
    return plan.stages[1].flops;
  };
  const double none = flops(1, 1), half = flops(4, 1), other = flops(1, 3), both = flops(4, 3);
  EXPECT_LT(none, std::min(half, other));
  EXPECT_LT(std::max(half, other), both);
  EXPECT_DOUBLE_EQ(both - half, other - none);
  VideoRequest r = run.request;
  r.guidance = 1, r.guidance_2 = 3;  // only the second expert needs the negative prompt
  const auto latents = test::run(pipeline, r).latents;
  r.negative_prompt = "a bee";
  EXPECT_NE(test::run(pipeline, r).latents, latents);
}

TEST(Experts, DefaultsAreThePublishedOnes) {
  const auto defaults = [](const char* kase, bool original) {
    return ModelBundle::open(experts_model(kase, original)).defaults;
  };
  EXPECT_EQ(ModelBundle::open(experts_model("t2v")).boundary, 0.875);
  EXPECT_EQ(ModelBundle::open(experts_model("i2v")).boundary, 0.9);
  EXPECT_EQ(ModelBundle::open(experts_model("t2v", true)).boundary, 0.875);
  EXPECT_EQ(ModelBundle::open(experts_model("i2v", true)).boundary, 0.9);
  for (const bool original : {false, true}) {
    EXPECT_EQ(*defaults("t2v", original).guidance, 4);
    EXPECT_EQ(*defaults("t2v", original).guidance_2, 3);
    EXPECT_EQ(*defaults("i2v", original).guidance, 3.5);
    EXPECT_EQ(*defaults("i2v", original).guidance_2, 3.5);
    EXPECT_EQ(*defaults("t2v", original).steps, 40);
  }
  EXPECT_EQ(*defaults("t2v", true).shift, 12);
  EXPECT_EQ(*defaults("i2v", true).shift, 5);
  VideoRequest r = experts_run("t2v_unipc").request;
  r.guidance_2.reset();  // as in diffusers, a single given value is for both experts
  EXPECT_EQ(*resolve(ModelBundle::open(experts_model("t2v")), r).request.guidance_2, 4);
  r.guidance.reset();
  EXPECT_EQ(*resolve(ModelBundle::open(experts_model("t2v")), r).request.guidance_2, 3);
}

TEST(Experts, ResumesInEitherPart) {
  for (const char* name : {"t2v_unipc", "i2v_unipc"})
    for (const double step_cache : {0.0, 0.3}) {
      ExpertsRun run = experts_run(name);
      run.request.step_cache = step_cache;
      std::vector<RunState> states;
      VideoCallbacks callbacks;
      callbacks.state = [&](const RunStateView& view) {
        RunState& s = states.emplace_back(
            RunState{view.step, {view.latents.begin(), view.latents.end()}, {}, view.generator});
        for (const auto& tensor : view.solver) s.solver.emplace_back(tensor.begin(), tensor.end());
      };
      TextToVideo pipeline(ModelBundle::open(run.model), {.threads = 2});
      const test::Result whole = test::run(pipeline, run.request, callbacks);
      ASSERT_EQ(states.size(), static_cast<size_t>(*run.request.steps));
      for (const RunState& state : states) {
        int loads = 0;
        std::vector<float> latents;
        VideoCallbacks rest;
        rest.latents = [&](std::span<const float> values, std::span<const int64_t>) {
          latents.assign(values.begin(), values.end());
        };
        rest.progress = [&](const Progress& p) { loads += p.stage == "load" && p.done == 0; };
        pipeline.generate(run.request, rest, &state);
        EXPECT_EQ(latents, whole.latents) << name << " after step " << state.step;
        const bool all = state.step == *run.request.steps;
        EXPECT_EQ(loads, all ? 0 : state.step < run.high_noise_steps ? 2 : 1) << state.step;
      }
    }
}

// The step cache's knowledge of one expert says nothing about the other: each computes its first two steps.
TEST(Experts, TheStepCacheBeginsAnewWithEach) {
  ExpertsRun run = experts_run("t2v_unipc");
  run.request.step_cache = 1;
  TextToVideo pipeline(ModelBundle::open(run.model), {.threads = 2});
  const int steps = *run.request.steps, high = run.high_noise_steps;
  EXPECT_EQ(pipeline.generate(run.request, {}).steps_reused, (high - 2) + (steps - high - 2 - 1));
}

TEST(Experts, BothStayWhereThereIsRoom) {
  const ExpertsRun run = experts_run("t2v_unipc");
  const auto alone = test::run(run.model, run.request, {.threads = 2, .weights = WeightMode::packed});
  auto device = std::make_shared<HostDevice>(kPlenty);
  const TextToVideo::Options options{
      .threads = 2, .weights = WeightMode::packed, .keep_loaded = true, .memory = device};
  TextToVideo kept(ModelBundle::open(run.model), options);
  int loads = 0;
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) { loads += p.stage == "load" && p.done == 0; };
  const VideoPlan plan = kept.plan(run.request);
  EXPECT_TRUE(plan.keeps);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(test::run(kept, run.request, callbacks).latents, alone.latents);
    EXPECT_EQ(loads, 2) << "the second run finds both";
    EXPECT_LE(device->peak_bytes(), plan.peak_bytes);
  }
  // With a byte less, latent frames are decoded one by one. With a byte less than that needs, the experts must make room
  // for one another, and both are loaded again.
  device = std::make_shared<HostDevice>(kPlenty);
  TextToVideo::Options less = options;
  less.memory = device, less.max_vram = plan.peak_bytes - 1;
  const VideoPlan lean = TextToVideo(ModelBundle::open(run.model), less).plan(run.request);
  EXPECT_TRUE(lean.keeps);
  less.max_vram = lean.peak_bytes - 1;
  TextToVideo tight(ModelBundle::open(run.model), less);
  const VideoPlan one = tight.plan(run.request);
  EXPECT_FALSE(one.keeps);
  EXPECT_LT(one.peak_bytes, plan.peak_bytes);
  loads = 0;
  for (int i = 0; i < 2; ++i) {
    device->reset_peak();
    EXPECT_EQ(test::run(tight, run.request, callbacks).latents, alone.latents);
    EXPECT_EQ(device->peak_bytes(), one.peak_bytes) << "to the byte";
    EXPECT_EQ(device->live_bytes(), 0u);
    EXPECT_EQ(loads, 2 * (i + 1));
  }
}

// The deep model of deep_model.h becomes two experts, whose blocks are streamed through two slots.
TEST(Experts, BlocksOfBothAreStreamed) {
  const test::ScratchFolder scratch;
  const auto folder = scratch.path / "model";
  std::filesystem::copy(test::deep_model(), folder, std::filesystem::copy_options::recursive);
  test::make_two_experts(folder);
  VideoRequest request = test::short_request();
  request.steps = 6;
  const auto whole = test::run(folder, request, {.threads = 2, .weights = WeightMode::packed});
  EXPECT_NE(whole.latents, test::run(test::deep_model(), request, {.weights = WeightMode::packed}).latents);
  auto device = std::make_shared<HostDevice>(kPlenty);
  const auto on = [&](uint64_t max_vram) {
    return TextToVideo::Options{
        .threads = 2, .weights = WeightMode::packed, .max_vram = max_vram, .memory = device};
  };
  const uint64_t peak = TextToVideo(ModelBundle::open(folder), on(0)).plan(request).peak_bytes;
  TextToVideo small(ModelBundle::open(folder), on(peak - peak / 4));
  const VideoPlan plan = small.plan(request);
  ASSERT_GT(plan.stages[1].streamed, 0);
  device->reset_peak();
  EXPECT_EQ(test::run(small, request).latents, whole.latents);
  EXPECT_EQ(device->peak_bytes(), plan.peak_bytes);
  EXPECT_EQ(device->live_bytes(), 0u);
  EXPECT_EQ(device->pinned, 0);
}

TEST(Experts, EachIsComparedWithItsFile) {
  const ExpertsRun run = experts_run("t2v_unipc");
  auto device = std::make_shared<HostDevice>(kPlenty);
  const TextToVideo::Options options{
      .threads = 2, .weights = WeightMode::packed, .verify_upload = true, .memory = device};
  TextToVideo pipeline(ModelBundle::open(run.model), options);
  EXPECT_EQ(test::run(pipeline, run.request).latents, test::run(run.model, run.request).latents);
}

TEST(Experts, WrongModelsAndRequestsSayWhatIsMissing) {
  const test::ScratchFolder scratch;
  const auto folder = test::make_experts(scratch.path / "model", "t2v", false);
  nlohmann::json index = read_json(folder / "model_index.json");
  index["boundary_ratio"] = nullptr;
  std::ofstream(folder / "model_index.json") << index;
  EXPECT_THAT(test::refusal([&] { ModelBundle::open(folder); }, ErrorCode::not_found),
              HasSubstr("boundary_ratio"));
  index["boundary_ratio"] = 0.875;
  std::ofstream(folder / "model_index.json") << index;
  nlohmann::json config = read_json(folder / "transformer_2/config.json");
  config["ffn_dim"] = 41;
  std::ofstream(folder / "transformer_2/config.json") << config;
  EXPECT_THAT(test::refusal([&] { ModelBundle::open(folder); }, ErrorCode::unsupported), HasSubstr("differ"));

  VideoRequest r = experts_run("t2v_unipc").request;
  const auto refused = [&](const std::string& model) {
    return test::refusal([&] { resolve(ModelBundle::open(model), r); }, ErrorCode::invalid_argument);
  };
  EXPECT_THAT(refused(test::model_path()), HasSubstr("`guidance_2`"));
  for (const double scale : {-1.0, 101.0, std::nan("")}) {
    r.guidance_2 = scale;
    EXPECT_THAT(refused(experts_model("t2v")),
                testing::AllOf(HasSubstr("`guidance_2`"), HasSubstr("0 to 100")));
  }
}

TEST(Experts, NaNInTheSecondOneNamesTheStep) {
  const test::ScratchFolder scratch;
  const auto folder = test::make_experts(scratch.path / "model", "t2v", false);
  test::edit_weights(folder, "transformer_2", [](const std::string& name, Tensor t) {
    if (name == "proj_out.bias") test::fill_nan(t);
    return true;
  });
  const ExpertsRun run = experts_run("t2v_unipc");
  const size_t before = Buffer::live_bytes();
  EXPECT_THAT(test::refusal([&] { test::run(folder, run.request); }, ErrorCode::numerical),
              HasSubstr(fmt::format("step {} of {}", run.high_noise_steps + 1, *run.request.steps)));
  EXPECT_EQ(Buffer::live_bytes(), before);
}

TEST(Experts, TheFingerprintIsOfBoth) {
  const test::ScratchFolder scratch;
  const auto folder = test::make_experts(scratch.path / "model", "t2v", false);
  const std::string want = fingerprint(ModelBundle::open(folder));
  EXPECT_EQ(fingerprint(ModelBundle::open(experts_model("t2v"))), want);
  test::edit_weights(folder, "transformer_2", [](const std::string& name, Tensor t) {
    if (name == "proj_out.bias") static_cast<uint8_t*>(t.data)[0] ^= 1;
    return true;
  });
  EXPECT_NE(fingerprint(ModelBundle::open(folder)), want);
}

}  // namespace
}  // namespace tachy
