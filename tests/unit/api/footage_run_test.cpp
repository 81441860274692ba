// Runs that begin with videos, masks and reference pictures are compared with diffusers' WanVACEPipeline and
// WanVideoToVideoPipeline (tests/golden/vace/make.py): the control, the final latents, the frames. Further tests
// cover the plan, resuming, windows and ranks.
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../pipelines/experts_model.h"
#include "vace_model.h"

namespace tachy {
namespace {

using test::GoldenFile;
using test::vace_run;
using test::VaceRun;

const std::vector<std::string> kRuns = {"follow",    "inpaint",    "references", "all",     "outpaint",
                                        "keep",      "first_last", "nothing",    "experts", "v2v_unipc",
                                        "v2v_euler", "v2v_dpm",    "v2v_part"};

class FootageRuns : public testing::TestWithParam<std::string> {};

TEST_P(FootageRuns, LatentsAndFramesAreTheReferences) {
  const VaceRun run = vace_run(GetParam());
  const GoldenFile golden("vace/golden.safetensors");
  const Tensor want = golden[GetParam() + ".latents"];
  const double own = std::stod(golden.source->metadata().at(GetParam() + ".error"));
  for (const char* weights : {"packed", "mapped"}) {
    Engine engine(run.model, {.threads = 2, .weights = weights});
    test::Result result = test::run(engine, run.request);
    ASSERT_EQ(std::vector<int64_t>(want.shape().begin(), want.shape().end()), result.shape);
    const double error = test::error_of(Tensor(result.latents.data(), DType::f32, result.shape), want);
    EXPECT_LE(error, std::max(3 * own, 5e-6)) << weights;
    RecordProperty("error", fmt::format("{:.2e}, the reference's in float32 {:.2e}", error, own));
    EXPECT_EQ(result.frames, 9);
    if (!golden.has(GetParam() + ".frames")) continue;
    const Tensor frames = golden[GetParam() + ".frames"];
    ASSERT_EQ(static_cast<int64_t>(result.rgb.size()), frames.numel());
    int worst = 0;
    for (size_t i = 0; i < result.rgb.size(); ++i)
      worst = std::max(worst, std::abs(int{result.rgb[i]} - int{frames.as<uint8_t>()[i]}));
    EXPECT_LE(worst, 1);
  }
}

TEST_P(FootageRuns, PlanIsExact) {
  VaceRun run = vace_run(GetParam());
  run.request.steps = 4;
  for (const int threads : {1, 3}) {
    Engine engine(run.model, {.threads = threads});
    const PreparedRequest prepared = engine.prepare(run.request);
    EXPECT_EQ(prepared.plan().stages.at(1).name, "video");
    const size_t before = Buffer::live_bytes();
    Buffer::reset_peak();
    engine.generate(prepared);
    EXPECT_EQ(Buffer::peak_bytes() - before, prepared.plan().peak_bytes) << threads << " threads";
    EXPECT_EQ(Buffer::live_bytes(), before);
  }
}

// A run that resumes after any step has the bits of one that nothing interrupted.
TEST_P(FootageRuns, ResumesToTheSameBits) {
  VaceRun run = vace_run(GetParam());
  run.request.steps = 4;
  Engine engine(run.model, {.threads = 2});
  std::vector<RunState> states;
  VideoCallbacks callbacks;
  callbacks.state = [&](const RunStateView& view) {
    RunState& s = states.emplace_back();
    s.step = view.step, s.latents.assign(view.latents.begin(), view.latents.end()),
    s.generator = view.generator;
    for (const auto tensor : view.solver) s.solver.emplace_back(tensor.begin(), tensor.end());
  };
  const test::Result whole = test::run(engine, run.request, callbacks);
  ASSERT_GE(states.size(), 2u);
  for (const RunState& state : states) {
    const test::Result rest = test::run(engine, run.request, {}, &state);
    EXPECT_EQ(rest.latents, whole.latents) << "from step " << state.step;
    EXPECT_EQ(rest.rgb, whole.rgb);
  }
}

TEST_P(FootageRuns, BitsDoNotDependOnThreadsOrRanks) {
  VaceRun run = vace_run(GetParam());
  run.request.steps = 4;
  Engine one(run.model, {.threads = 1});
  const test::Result want = test::run(one, run.request);
  for (const int ranks : {1, 2, 3}) {
    Engine divided(run.model, {.threads = 3, .ranks = ranks});
    const test::Result got = test::run(divided, run.request);
    EXPECT_EQ(got.latents, want.latents) << ranks << " ranks";
    EXPECT_EQ(got.rgb, want.rgb) << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, FootageRuns, testing::ValuesIn(kRuns),
                         [](const auto& info) { return info.param; });

// With strength 0 the control is neither encoded nor followed, and the run is that of the model without it.
TEST(Vace, StrengthZeroIsTheModelWithoutControlBlocks) {
  VaceRun run = vace_run("inpaint");
  run.request.vace_strength = "0";
  Engine engine(run.model, {.threads = 2});
  EXPECT_EQ(engine.prepare(run.request).plan().stages.at(1).name, "denoise");
  const test::Result zero = test::run(engine, run.request);
  const test::ScratchFolder scratch;
  namespace fs = std::filesystem;
  const fs::path plain = scratch.path / "plain";
  fs::copy(run.model, plain, fs::copy_options::recursive);
  test::edit_weights(plain, "transformer",
                     [](const std::string& name, Tensor) { return !name.starts_with("vace_"); });
  nlohmann::json config = read_json((plain / "transformer/config.json").string());
  config.erase("vace_layers"), config.erase("vace_in_channels");
  config["_class_name"] = "WanTransformer3DModel";
  std::ofstream(plain / "transformer/config.json") << config;
  Engine without(plain, {.threads = 2});
  EXPECT_EQ(without.inputs().kind, "text-to-video");
  VideoRequest text = run.request;
  text.control_video = text.mask_video = nullptr, text.vace_strength.reset();
  const test::Result want = test::run(without, text);
  EXPECT_EQ(zero.latents, want.latents);
  EXPECT_EQ(zero.rgb, want.rgb);
}

// Windows cut the control with the clip: a clip of two windows that are the whole clip is that clip.
TEST(Vace, WindowsFollowTheirPartOfTheControl) {
  VaceRun run = vace_run("inpaint");
  run.request.steps = 3;
  Engine engine(run.model, {.threads = 2});
  const test::Result whole = test::run(engine, run.request);
  run.request.windows = "static", run.request.window_frames = 5, run.request.window_overlap = 4;
  run.request.free_noise = "off";
  const test::Result windowed = test::run(engine, run.request);
  EXPECT_EQ(windowed.frames, 9);
  EXPECT_NE(windowed.latents, whole.latents);
  VideoRequest other = run.request;
  other.mask_video = nullptr;
  EXPECT_NE(test::run(engine, other).latents, windowed.latents);
  const PreparedRequest prepared = engine.prepare(run.request);
  const size_t before = Buffer::live_bytes();
  Buffer::reset_peak();
  engine.generate(prepared);
  EXPECT_EQ(Buffer::peak_bytes() - before, prepared.plan().peak_bytes);
}

// More noise leaves less of the video.
TEST(VideoToVideo, StrengthSaysHowManyStepsAreRun) {
  VaceRun run = vace_run("v2v_unipc");
  Engine engine(run.model, {.threads = 2});
  std::vector<int64_t> begins;
  for (const double strength : {0.3, 0.7, 1.0}) {
    run.request.strength = strength;
    int64_t steps = 0;
    VideoCallbacks callbacks;
    callbacks.state = [&](const RunStateView& view) { steps = view.steps; };
    test::run(engine, run.request, callbacks);
    EXPECT_EQ(steps, static_cast<int64_t>(10 * strength));
  }
}

// Euler's first sigma is 1, so with strength 1 nothing of the video is left, and the bits are those of a run without
// it. Picture models and models of two experts begin with a video as any other.
TEST(VideoToVideo, GoesWithEveryKindOfModel) {
  const test::VaceRun v2v = vace_run("v2v_euler");
  std::vector<test::VaceRun> runs{{v2v.model, v2v.request}};
  for (const char* name : {"ti2v_euler", "i2v22_unipc", "i2v22_last"}) {
    const test::ImageRun run = test::image_run(name);
    runs.push_back({run.model, run.request});
  }
  const test::ExpertsRun experts = test::experts_run("t2v_euler");
  runs.push_back({experts.model, experts.request});
  for (test::VaceRun& run : runs) {
    run.request.sampler = "euler", run.request.frames = 5, run.request.steps = 4;
    run.request.video = nullptr, run.request.strength.reset();
    Engine engine(run.model, {.threads = 2});
    const test::Result noise = test::run(engine, run.request);
    run.request.video = v2v.request.video, run.request.strength = 1.0;
    EXPECT_EQ(test::run(engine, run.request).latents, noise.latents) << run.model;
    run.request.strength = 0.5;
    const PreparedRequest prepared = engine.prepare(run.request);
    const size_t before = Buffer::live_bytes();
    Buffer::reset_peak();
    test::Result half;
    engine.generate(prepared, test::collecting(half, {}));
    EXPECT_EQ(Buffer::peak_bytes() - before, prepared.plan().peak_bytes) << run.model;
    EXPECT_NE(half.latents, noise.latents) << run.model;
    EXPECT_EQ(half.frames, 5);
  }
}

}  // namespace
}  // namespace tachy
