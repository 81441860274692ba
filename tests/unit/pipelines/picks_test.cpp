// A run uses exactly the implementations that its plan chose, op by op, with the same numbers of calls. The
// tests run on the CPU, and with a stand-in for a GPU whose blocks are streamed and whose steps are recorded.
// If a run uses another implementation, it says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "deep_model.h"
#include "experts_model.h"
#include "ops/impl_table.h"
#include "recording_device.h"

namespace tachy {
namespace {

using test::HostDevice;
using test::kPlenty;
using test::RecordingDevice;

using Calls = std::map<std::string, int64_t>;  // numbers of calls by "stage: op implementation"

void add(Calls& calls, const std::string& stage, const std::vector<ops::OpPick>& picks) {
  for (const ops::OpPick& p : picks) calls[stage + ": " + p.op + " " + p.impl] += p.calls;
}

Calls planned_calls(const VideoPlan& plan) {
  Calls out;
  for (const StagePlan& s : plan.stages) add(out, s.name, s.picks);
  return out;
}

struct RunCalls {
  Calls calls;
  std::vector<std::string> unplanned;
};

VideoCallbacks listening(RunCalls& out) {
  VideoCallbacks callbacks;
  callbacks.picks = [&](const std::string& stage, const std::vector<ops::OpPick>& picks) {
    add(out.calls, stage, picks);
    for (const ops::OpPick& p : picks)
      if (!p.why.empty()) out.unplanned.push_back(p.op + " " + p.impl);
  };
  return callbacks;
}

void expect_as_planned(TextToVideo& pipeline, const VideoRequest& request, const std::string& what) {
  const Calls planned = planned_calls(pipeline.plan(request));
  RunCalls run;
  test::run(pipeline, request, listening(run));
  EXPECT_EQ(run.calls, planned) << what;
  EXPECT_THAT(run.unplanned, testing::IsEmpty()) << what;
  for (const char* stage : {"text: gemm", "denoise: attention", "denoise: lincomb", "decode: to_rgb8"})
    EXPECT_TRUE(std::any_of(planned.begin(), planned.end(),
                            [&](const auto& entry) { return entry.first.starts_with(stage); }))
        << what << " has no " << stage;
}

void expect_as_planned(const std::string& model, const VideoRequest& request, const std::string& what,
                       TextToVideo::Options options = {}) {
  if (options.threads == 0) options.threads = 2;
  TextToVideo pipeline(ModelBundle::open(model), options);
  expect_as_planned(pipeline, request, what);
}

TEST(PicksOfRuns, OfAText) {
  for (const bool original : {false, true})
    for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped})
      for (const double guidance : {1.0, 5.0}) {
        VideoRequest request = test::short_request();
        request.guidance = guidance, request.steps = guidance > 1 ? 5 : 1;
        expect_as_planned(
            test::model_path(original), request,
            fmt::format("original {}, mode {}, guidance {}", original, static_cast<int>(mode), guidance),
            {.threads = guidance > 1 ? 3 : 1, .weights = mode});
      }
}

TEST(PicksOfRuns, OfOtherRequests) {
  VideoRequest wide = test::short_request();
  wide.width = 112, wide.height = 80, wide.frames = 9, wide.steps = 3;
  VideoRequest still = test::short_request();
  still.frames = 1, still.sampler = "dpm++", still.steps = 5;
  VideoRequest few = test::short_request();
  few.sampler = "lightx2v-4";
  VideoRequest empty = test::short_request();
  empty.prompt.clear(), empty.negative_prompt = "";
  VideoRequest plain = test::short_request();
  plain.level = "none";
  VideoRequest low = test::short_request();
  low.dtype = "bf16";
  const std::pair<const char*, VideoRequest> all[] = {{"wide", wide},   {"still", still}, {"few", few},
                                                      {"empty", empty}, {"plain", plain}, {"low", low}};
  for (const auto& [name, request] : all) expect_as_planned(test::model_path(), request, name);
}

TEST(PicksOfRuns, OfAPicture) {
  for (const std::string& name : test::image_runs()) {
    test::ImageRun run = test::image_run(name);
    run.request.steps = 3;
    expect_as_planned(run.model, run.request, name);
  }
}

TEST(PicksOfRuns, OfTwoExperts) {
  const auto runs = read_json(test::golden_path("experts/runs.json")).at("runs");
  for (const auto& [name, unused] : runs.items()) {
    const test::ExpertsRun run = test::experts_run(name);
    expect_as_planned(run.model, run.request, name);
  }
}

TEST(PicksOfRuns, OfADevice) {
  VideoRequest request = test::short_request();
  request.steps = 4;
  const auto device = std::make_shared<HostDevice>(kPlenty);
  TextToVideo::Options options{.threads = 2, .weights = WeightMode::packed, .memory = device};
  TextToVideo whole(ModelBundle::open(test::deep_model()), options);
  expect_as_planned(whole, request, "all blocks there");
  options.max_vram = whole.plan(request).peak_bytes * 2 / 3;
  TextToVideo streamed(ModelBundle::open(test::deep_model()), options);
  EXPECT_GT(streamed.plan(request).host_bytes, 0u);
  expect_as_planned(streamed, request, "blocks streamed");
  options.max_vram = 0, options.memory = std::make_shared<RecordingDevice>(kPlenty);
  TextToVideo recorded(ModelBundle::open(test::deep_model()), options);
  expect_as_planned(recorded, request, "steps recorded");
  EXPECT_GT(recorded.counters().captured, 0);
  const test::ImageRun image = test::image_run("i2v_unipc");
  options.memory = std::make_shared<RecordingDevice>(kPlenty);
  expect_as_planned(image.model, image.request, "a picture", options);
}

// A later run loads nothing, and the step cache saves passes: there are fewer calls, and none that was not
// planned.
TEST(PicksOfRuns, OfALaterRunThatDoesLess) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2, .keep_loaded = true});
  VideoRequest request = test::short_request();
  request.steps = 12, request.step_cache = 0.5;
  const Calls planned = planned_calls(pipeline.plan(request));
  for (int i = 0; i < 2; ++i) {
    RunCalls run;
    test::run(pipeline, request, listening(run));
    EXPECT_THAT(run.unplanned, testing::IsEmpty());
    for (const auto& [name, calls] : run.calls) EXPECT_LE(calls, planned.at(name)) << name;
    EXPECT_NE(run.calls, planned) << "the step cache saved nothing";
  }
}

struct Forced {
  explicit Forced(const char* name) { ops::set_forced_impl("rmsnorm", name); }
  ~Forced() { ops::set_forced_impl("rmsnorm", nullptr); }
};

TEST(PicksOfRuns, AnotherAnswerThanThePlansIsSeen) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  const TextToVideo::Prepared prepared = pipeline.prepare(pipeline.resolved(test::short_request()));
  const Forced forced("ref");
  RunCalls run;
  testing::internal::CaptureStderr();
  pipeline.generate(prepared, listening(run));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("rmsnorm: ref computes, which the plan did not count (it has cpu)"));
  EXPECT_THAT(run.unplanned, testing::ElementsAre("rmsnorm ref"));
}

}  // namespace
}  // namespace tachy
