// Tests the flags that govern a job while it runs: one that is stopped keeps its frames if that is wanted, and loses no
// finished step otherwise.
#include "jobs/job_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>

#include "../cli/binary.h"
#include "jobs/job_runner.h"
#include "jobs/open_engine.h"
#include "jobs/state_file.h"
#include "media/video/video_reader.h"

namespace tachy::jobs {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

// Sets `flag` when a stage has come so far.
struct StoppingSink : JobSink {
  std::atomic<bool>* flag = nullptr;
  std::string stage;
  int64_t done = 0;
  std::vector<json> events;
  int reports = 0;

  void event(const json& event, const std::string&) override { events.push_back(event); }
  void notice(const std::string&) override {}
  void progress(const Progress& p) override {
    ++reports;
    if (flag && p.stage == stage && p.done >= done) *flag = true;
  }
  void end_of_progress() override {}
  void can_go_on(const std::string&) override {}
};

class JobControls : public test::CliTest {
 protected:
  JobSpec spec(const std::string& output) const {
    JobSpec job;
    job.settings.model = test::model_path();
    VideoRequest& r = job.settings.request;
    r.prompt = "a red cat", r.seed = 7, r.width = 48, r.height = 32, r.frames = 13, r.steps = 3;
    job.output = path(output), job.state_every = 3600, job.crf = 0;
    return job;
  }
  bool make(const JobSpec& job, JobSink& sink, const JobControl& control) {
    Engine engine = std::move(open_engine(job, {.threads = 2, .device = "cpu"}, sink).engine);
    JobStore store(control.cancel);
    JobRunner runner(engine, store, sink, control);
    return runner.run(job, runner.prepare(job));
  }
  bool make(const JobSpec& job) {
    StoppingSink sink;
    return make(job, sink, {});
  }
  void expect_cancelled(const JobSpec& job, StoppingSink& sink, const JobControl& control) {
    try {
      make(job, sink, control);
      FAIL() << "it was not stopped";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::cancelled) << e.message();
    }
  }

  std::atomic<bool> cancel_{false}, hold_{false}, keep_{false};
};

TEST_F(JobControls, AStoppedJobKeepsItsFrames) {
  ASSERT_TRUE(make(spec("whole.mp4")));
  StoppingSink sink;
  sink.flag = &cancel_, sink.stage = "decode", sink.done = 5, keep_ = true;
  const JobSpec job = spec("clip.mp4");
  ASSERT_TRUE(make(job, sink, {.cancel = &cancel_, .keep = &keep_}));
  const auto frames = read_video(job.output), all = read_video(path("whole.mp4"));
  ASSERT_GE(frames.size(), 5u);
  ASSERT_LT(frames.size(), all.size()) << "it went on";
  for (size_t i = 0; i < frames.size(); ++i) EXPECT_EQ(frames[i].rgb, all[i].rgb) << i;
  ASSERT_EQ(sink.events.size(), 1u);
  EXPECT_EQ(sink.events[0].at("frames"), frames.size());
  const json beside = json::parse(test::read_text(path("clip.json")));
  EXPECT_EQ(beside.at(kFramesKept), frames.size());
  EXPECT_EQ(beside.at("num_frames"), 13);
  EXPECT_THAT(files(), testing::UnorderedElementsAre("clip.mp4", "clip.json", "whole.mp4", "whole.json"));

  JobSpec again = spec("again.mp4");
  again.settings = read_settings(job.output.string());
  ASSERT_TRUE(make(again));
  EXPECT_EQ(test::read_text(path("again.mp4")), test::read_text(path("whole.mp4")))
      << "whoever repeats it gets the whole video";
  JobSpec resumed = job;
  resumed.resume = true;
  EXPECT_FALSE(make(resumed)) << "it is complete: it was to have no more frames";
}

TEST_F(JobControls, AllFramesAreNoCut) {
  StoppingSink sink;
  sink.flag = &cancel_, sink.stage = "decode", sink.done = 13, keep_ = true;
  ASSERT_TRUE(make(spec("clip.mp4"), sink, {.cancel = &cancel_, .keep = &keep_}));
  ASSERT_TRUE(make(spec("whole.mp4")));
  EXPECT_EQ(test::read_text(path("clip.mp4")), test::read_text(path("whole.mp4")));
}

TEST_F(JobControls, WithoutFramesItIsCancelled) {
  StoppingSink sink;
  sink.flag = &cancel_, sink.stage = "denoise", sink.done = 1, keep_ = true;
  expect_cancelled(spec("clip.mp4"), sink, {.cancel = &cancel_, .keep = &keep_});
  EXPECT_THAT(files(), testing::ElementsAre("clip.mp4.resume"));
}

TEST_F(JobControls, AStoppedJobLosesNoFinishedStep) {
  ASSERT_TRUE(make(spec("whole.mp4")));
  for (const int64_t step : {1, 2, 3}) {
    cancel_ = false;
    JobSpec job = spec("clip.mp4");
    StoppingSink sink;
    sink.flag = &cancel_, sink.stage = "denoise", sink.done = step;
    expect_cancelled(job, sink, {.cancel = &cancel_});
    ASSERT_TRUE(fs::exists(StateFile::path_of(job.output))) << step;
    job.resume = true;
    StoppingSink second;
    ASSERT_TRUE(make(job, second, {}));
    ASSERT_EQ(second.events.size(), 2u);
    EXPECT_EQ(second.events[0].at("step"), step) << "no finished step is done again";
    EXPECT_EQ(test::read_text(job.output), test::read_text(path("whole.mp4"))) << step;
    fs::remove(job.output), fs::remove(path("clip.json"));
  }
}

TEST_F(JobControls, AHeldJobWaits) {
  StoppingSink sink;
  sink.flag = &hold_, sink.stage = "denoise", sink.done = 1;
  const JobSpec job = spec("clip.mp4");
  auto run =
      std::async(std::launch::async, [&] { return make(job, sink, {.cancel = &cancel_, .hold = &hold_}); });
  EXPECT_EQ(run.wait_for(std::chrono::seconds(2)), std::future_status::timeout);
  sink.flag = nullptr, hold_ = false;
  EXPECT_TRUE(run.get());
  ASSERT_TRUE(make(spec("whole.mp4")));
  EXPECT_EQ(test::read_text(path("clip.mp4")), test::read_text(path("whole.mp4")));
}

}  // namespace
}  // namespace tachy::jobs
