// Tests presets of distilled models: their numbers as in the cards and reference implementations, the models
// that they fit, what takes precedence, and runs with them.
#include "request/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experts_model.h"
#include "request/sampler_config.h"
#include "resolve/resolve.h"
#include "stages/denoise_stage.h"

namespace tachy {
namespace {

using test::experts_model;
using testing::AllOf;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

const Preset& preset(std::string_view name) {
  for (const Preset& p : presets())
    if (name == p.name) return p;
  throw std::out_of_range(std::string(name));
}

void expect_row(const PresetRow& row, SamplerKind kind, const std::vector<double>& timesteps,
                const std::vector<float>& sigmas) {
  const SamplerConfig config = sampler_config(row);
  EXPECT_EQ(config.kind, kind);
  const Schedule s = make_schedule(config);
  EXPECT_EQ(row.steps, s.steps());
  EXPECT_THAT(s.timesteps, Pointwise(testing::DoubleNear(1e-4), timesteps));
  EXPECT_THAT(s.sigmas, Pointwise(FloatNear(1e-7f), sigmas));
  EXPECT_EQ(row.guidance, 1);
}

// The values are from running LightX2V's scheduler and Wan2.2-Lightning's EulerScheduler; diffusers'
// FlowMatchEulerDiscreteScheduler with sigmas = linspace(1, 1 / n, n) and shift 5 gives the same
// (tests/reference/presets.py).
TEST(Presets, EulerOfShiftFive) {
  const std::vector<double> four = {1000, 937.5, 833.3333129882812, 625};
  const std::vector<float> four_sigmas = {1, .9375f, .8333333134651184f, .625f, 0};
  for (const auto& [name, row] : {std::pair{"lightx2v-4", 0}, {"lightx2v-4", 1}, {"lightning-4", 0}})
    expect_row(preset(name).rows.at(static_cast<size_t>(row)), SamplerKind::euler, four, four_sigmas);
  for (const PresetRow& row : preset("lightx2v-8").rows)
    expect_row(
        row, SamplerKind::euler,
        {1000, 972.2222290039062, 937.5, 892.8571166992188, 833.3333129882812, 750, 625, 416.6666564941406},
        {1, .9722222089767456f, .9375f, .8928571343421936f, .8333333134651184f, .75f, .625f,
         .4166666567325592f, 0});
  const auto list = make_schedule(few_step_config("lightx2v-4"));
  EXPECT_EQ(make_schedule(sampler_config(preset("lightx2v-4").rows[0])).sigmas, list.sigmas);
  EXPECT_EQ(make_schedule(sampler_config(preset("lightx2v-4").rows[0])).timesteps, list.timesteps);
  const PresetRow& pictures = preset("lightx2v-4").rows.at(2);
  expect_row(pictures, SamplerKind::euler, {1000, 979.5918579101562, 941.1764526367188, 842.1052856445312},
             {1, .9795918464660645f, .9411764740943909f, .8421052694320679f, 0});
  EXPECT_EQ(sampler_config(pictures).high_noise_steps, 2);
}

TEST(Presets, Lists) {
  expect_row(preset("fastwan-3").rows[0], SamplerKind::lcm, {1000, 757, 522},
             {1, .7567567229270935f, .52173912525177f, 0});
  expect_row(preset("causvid-9").rows[0], SamplerKind::euler, {999, 934, 862, 756, 603, 410, 250, 140, 74},
             {.999f, .934f, .862f, .756f, .603f, .41f, .25f, .14f, .074f, 0});
  expect_row(preset("rcm-4").rows[0], SamplerKind::lcm, {988, 932, 852, 608},
             {.9876543209876543f, .933781061416858f, .852895394823775f, .608979049230431f, 0});
  expect_row(preset("rcm-4").rows[1], SamplerKind::lcm, {996, 932, 852, 608},
             {.9950248756218906f, .933781061416858f, .852895394823775f, .608979049230431f, 0});
}

// The values are from running the original's FlowUniPCMultistepScheduler in AccVideo's repository.
TEST(Presets, TenStepsOfUnipc) {
  const PresetRow &text = preset("accvid-10").rows[0], &image = preset("accvid-10").rows[1];
  expect_row(text, SamplerKind::unipc, {999, 978, 952, 920, 882, 833, 768, 681, 555, 356},
             {.999799848f, .978048027f, .95215404f, .920810103f, .882093251f, .833055377f, .768934727f,
              .681508124f, .55524677f, .356887698f, 0});
  expect_row(image, SamplerKind::unipc, {999, 963, 922, 874, 817, 749, 666, 562, 428, 249},
             {.999666452f, .963941097f, .922721684f, .87463522f, .817809701f, .749624789f, .666296124f,
              .562148333f, .428265214f, .249791637f, 0});
}

TEST(Presets, StrengthsOfTheirAdapters) {
  const auto strengths = [](const char* name) {
    std::vector<double> out;
    for (const PresetRow& row : preset(name).rows) {
      out.push_back(row.lora_strength);
      if (row.lora_strength_2) out.push_back(*row.lora_strength_2);
      EXPECT_EQ(row.guidance_2.has_value(), row.lora_strength_2.has_value()) << name;
    }
    return out;
  };
  EXPECT_THAT(strengths("causvid-9"), ElementsAre(0.5));
  EXPECT_THAT(strengths("rcm-4"), ElementsAre(1, 4, 1));  // the names are high-rCM4.0 and low-rCM1.0
  EXPECT_THAT(strengths("lightning-4"), ElementsAre(1, 1));
}

VideoRequest with(const char* name, VideoRequest r = {}) {
  r.prompt = "x", r.preset = name;
  return r;
}

std::string refusal_of_preset(const ModelBundle& model, const VideoRequest& request) {
  try {
    resolve(model, request);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.message();
  }
  return "accepted";
}

TEST(Presets, BlockByBlock) {
  expect_row(preset("self-forcing-4").rows[0], SamplerKind::lcm, {1000, 937.5, 833.333333, 625},
             {1, .9375f, .83333333f, .625f, 0});
  expect_row(preset("causvid").rows[0], SamplerKind::lcm, {1000, 757, 522},
             {1, .7567567229270935f, .52173912525177f, 0});
  const ModelBundle model = ModelBundle::open(test::model_path());
  for (const char* name : {"self-forcing-4", "causvid"}) {
    const VideoRequest all = resolve(model, with(name, {.width = 32, .height = 16, .frames = 9})).request;
    EXPECT_EQ(all.block, 3) << name;
    EXPECT_EQ(all.block_window, 21) << name;
    EXPECT_EQ(all.guidance, 1) << name;
    const VideoRequest own =
        resolve(model, with(name, {.width = 32, .height = 16, .frames = 9, .block = 1})).request;
    EXPECT_EQ(own.block, 1) << name;
    EXPECT_EQ(own.block_window, 0) << name;
  }
}

// Returns the presets that are not refused for the model's kind.
std::string fitting(const std::string& folder, bool last = false) {
  const ModelBundle model = ModelBundle::open(folder);
  std::string out;
  for (const Preset& p : presets()) {
    VideoRequest r = with(p.name);
    if (last) r.last_image = std::make_shared<Picture>(Picture{16, 16, std::vector<uint8_t>(768)});
    if (!refusal_of_preset(model, r).starts_with("`preset`")) out += std::string(p.name) + " ";
  }
  return out;
}

TEST(Presets, FitWhatTheyWereDistilledFrom) {
  EXPECT_EQ(fitting(test::model_path()),
            "lightx2v-4 lightx2v-8 fastwan-3 causvid-9 rcm-4 self-forcing-4 causvid accvid-10 ");
  for (const char* image : {"i2v", "i2v22"})
    EXPECT_EQ(fitting(test::image_file(image)), "lightx2v-4 lightx2v-8 causvid-9 accvid-10 ");
  EXPECT_EQ(fitting(test::image_file("flf2v")), "");
  EXPECT_EQ(fitting(test::image_file("ti2v")), "fastwan-3 ");
  EXPECT_EQ(fitting(experts_model("t2v")), "lightx2v-4 lightx2v-8 lightning-4 ");
  EXPECT_EQ(fitting(experts_model("i2v")), "lightx2v-4 lightx2v-8 lightning-4 rcm-4 ");
  EXPECT_EQ(fitting(experts_model("i2v"), true), "lightx2v-4 ");
}

TEST(Presets, ARefusalSaysWhatWouldFit) {
  EXPECT_THAT(
      refusal_of_preset(ModelBundle::open(test::model_path()), with("lightning-4")),
      AllOf(HasSubstr("two experts"), HasSubstr("Wan2.2-T2V-A14B"), HasSubstr("fastwan-3, causvid-9")));
  EXPECT_THAT(refusal_of_preset(ModelBundle::open(test::image_file("ti2v")), with("lightx2v-4")),
              AllOf(HasSubstr("TI2V-5B"), HasSubstr("fastwan-3 would do")));
  EXPECT_THAT(refusal_of_preset(ModelBundle::open(test::image_file("flf2v")), with("lightx2v-4")),
              HasSubstr("there is no preset"));
}

// The tiny model's own defaults are unipc on its grid, 2 steps, guidance 4, shift 3.
TEST(Presets, WinOverTheModelAndLoseToTheRequest) {
  const ModelBundle model = ModelBundle::open(test::model_path());
  const VideoRequest own = resolve(model, with("accvid-10")).request;
  EXPECT_EQ(own.sampler, "unipc");
  EXPECT_EQ(own.grid, "original");
  EXPECT_EQ(own.steps, 10);
  EXPECT_EQ(own.guidance, 1);
  EXPECT_EQ(own.shift, 5);
  EXPECT_EQ(own.preset, "accvid-10");
  const VideoRequest given =
      resolve(model, with("accvid-10", {.steps = 7, .guidance = 2, .shift = 4, .sampler = "euler"})).request;
  EXPECT_EQ(given.sampler, "euler");
  EXPECT_EQ(given.steps, 7);
  EXPECT_EQ(given.guidance, 2);
  EXPECT_EQ(given.shift, 4);
  const VideoRequest part = resolve(model, with("causvid-9", {.steps = 4})).request;
  EXPECT_THAT(make_schedule(sampler_config(part)).timesteps, ElementsAre(999, 934, 862, 756));
  EXPECT_THAT(refusal_of_preset(model, with("fastwan-3", {.steps = 2})),
              HasSubstr("`steps`: the list fastwan-3"));
  EXPECT_THAT(refusal_of_preset(model, with("fastwan-3", {.shift = 3})),
              HasSubstr("`shift`: the list fastwan-3"));
  EXPECT_EQ(refusal_of_preset(model, with("fastwan-3", {.steps = 3, .shift = 8})), "accepted");
}

// A list without a preset also sets its steps, in place of the model's own number.
TEST(Presets, AListSaysItsSteps) {
  const ModelBundle model = ModelBundle::open(test::model_path());
  VideoRequest request{.prompt = "x", .steps = 50, .sampler = "fastwan-3"};
  EXPECT_EQ(resolve(model, request).request.steps, 3);
  request.sampler = "causvid-14b", request.steps.reset();
  EXPECT_EQ(resolve(model, request).request.steps, 9);
}

TEST(Presets, BothExpertsFollow) {
  const ModelBundle model = ModelBundle::open(experts_model("t2v"));
  const VideoRequest r = resolve(model, with("lightning-4")).request;
  EXPECT_EQ(r.guidance, 1);
  EXPECT_EQ(r.guidance_2, 1);
  EXPECT_THAT(part_of_steps(model, make_schedule(sampler_config(r))), ElementsAre(0, 0, 1, 1));
  const VideoRequest given = resolve(model, with("lightning-4", {.guidance = 2})).request;
  EXPECT_EQ(given.guidance_2, 2) << "a scale that is given alone is meant for both";
}

// The small size of the original's image models has its own shift, over which a preset's takes precedence.
TEST(Presets, WinOverTheShiftOfASize) {
  ModelBundle model = ModelBundle::open(test::image_file("i2v"));
  model.original = true;
  const test::ImageRun run = test::image_run("i2v_unipc");
  VideoRequest r = run.request;
  r.width = 832, r.height = 480, r.shift.reset(), r.sampler.reset(), r.steps.reset(), r.guidance.reset();
  EXPECT_EQ(resolve(model, r).request.shift, 3);
  r.preset = "lightx2v-4";
  EXPECT_EQ(resolve(model, r).request.shift, 5);
  r.preset = "accvid-10";
  EXPECT_EQ(resolve(model, r).request.shift, 3);
}

class PresetRuns : public testing::TestWithParam<std::string> {};

// A run with a preset equals one with its values, its plan is exact, and it can be resumed from any step.
TEST_P(PresetRuns, AreWhatTheirValuesSay) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  VideoRequest request = with(GetParam().c_str());
  request.width = 32, request.height = 16, request.frames = 5;
  const VideoPlan plan = pipeline.plan(request);
  std::vector<RunState> states;
  VideoCallbacks callbacks;
  callbacks.state = [&](const RunStateView& view) {
    RunState& s = states.emplace_back();
    s.step = view.step, s.latents.assign(view.latents.begin(), view.latents.end());
    for (const auto& t : view.solver) s.solver.emplace_back(t.begin(), t.end());
    s.generator = view.generator;
  };
  const size_t before = Buffer::live_bytes();
  Buffer::reset_peak();
  const test::Result whole = test::run(pipeline, request, callbacks);
  EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes);
  VideoRequest explicitly = resolve(pipeline.model(), request).request;
  explicitly.preset.reset();
  EXPECT_EQ(test::run(pipeline, explicitly).latents, whole.latents);
  ASSERT_EQ(states.size(), static_cast<size_t>(*explicitly.steps));
  for (const RunState& state : states) {
    std::vector<float> latents;
    const VideoCallbacks only{.latents = [&](std::span<const float> values, std::span<const int64_t>) {
      latents.assign(values.begin(), values.end());
    }};
    pipeline.generate(request, only, &state);
    EXPECT_EQ(latents, whole.latents) << "after step " << state.step;
  }
}

INSTANTIATE_TEST_SUITE_P(Text, PresetRuns,
                         testing::Values("lightx2v-4", "fastwan-3", "causvid-9", "rcm-4", "accvid-10"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tachy
