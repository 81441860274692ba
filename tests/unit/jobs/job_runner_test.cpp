// A job run by the library and the same job run by the command line give the same files byte for byte. The
// tests also cover what a sink is told, and a job that is stopped and resumed.
#include "jobs/job_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "../cli/binary.h"
#include "base/log.h"
#include "jobs/open_engine.h"

namespace tachy::jobs {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct KeptSink : JobSink {
  std::vector<json> events;
  std::vector<std::string> notices, stages;
  std::string goes_on;
  std::atomic<bool>* stop = nullptr;  // becomes true at the step `stop_at`
  int64_t stop_at = -1;

  void event(const json& event, const std::string&) override { events.push_back(event); }
  void notice(const std::string& text) override { notices.push_back(text); }
  void progress(const Progress& p) override {
    if (stages.empty() || stages.back() != p.stage) stages.push_back(p.stage);
    if (stop && p.stage == "denoise" && p.done == stop_at) stop->store(true);
  }
  void end_of_progress() override {}
  void can_go_on(const std::string& text) override { goes_on = text; }

  std::vector<std::string> event_names() const {
    std::vector<std::string> out;
    for (const json& e : events) out.push_back(e.at("event"));
    return out;
  }
};

class Jobs : public test::CliTest {
 protected:
  JobSpec spec(const std::string& output) const {
    JobSpec job;
    job.settings.model = test::model_path();
    VideoRequest& r = job.settings.request;
    r.prompt = "a red cat", r.seed = 7, r.width = 48, r.height = 32, r.frames = 5, r.steps = 3;
    job.output = path(output), job.state_every = 0;
    return job;
  }
  static Engine engine(const JobSpec& job) {
    KeptSink sink;
    return std::move(open_engine(job, {.threads = 2, .device = "cpu"}, sink).engine);
  }
  bool make(const JobSpec& job, KeptSink& sink) {
    Engine e = engine(job);
    JobRunner runner(e, store_, sink, &cancel_);
    return runner.run(job, runner.prepare(job));
  }

  std::atomic<bool> cancel_ = false;
  JobStore store_{&cancel_};
};

TEST_F(Jobs, TheLibraryMakesTheFilesOfTheCommandLine) {
  fs::create_directory(path("library")), fs::create_directory(path("command"));
  KeptSink sink;
  EXPECT_TRUE(make(spec("library/clip.mp4"), sink));
  const test::Done done = run(generate(
      {"a red cat", "--seed", "7", "--size", "48x32", "-f", "5", "--steps", "3", "-o", "command/clip.mp4"}));
  ASSERT_EQ(done.code, 0) << done.err;
  for (const char* name : {"clip.mp4", "clip.json"}) {
    const std::string ours = test::read_text(path("library") / name);
    EXPECT_FALSE(ours.empty()) << name;
    EXPECT_EQ(ours, test::read_text(path("command") / name)) << name;
  }
  EXPECT_THAT(sink.event_names(), testing::ElementsAre("done"));
  EXPECT_THAT(sink.stages, testing::ElementsAre("text", "load", "denoise", "decode"));
  EXPECT_EQ(sink.goes_on, "");
}

TEST_F(Jobs, AStoppedOneGoesOnBitForBit) {
  KeptSink whole;
  ASSERT_TRUE(make(spec("whole.gif"), whole));
  JobSpec job = spec("clip.gif");
  KeptSink stopped;
  stopped.stop = &cancel_, stopped.stop_at = 2;
  try {
    make(job, stopped);
    FAIL() << "it was not stopped";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::cancelled);
    EXPECT_THAT(e.message(), HasSubstr("`resume`")) << "a front end spells it";
  }
  EXPECT_THAT(stopped.goes_on, HasSubstr("step"));
  EXPECT_FALSE(fs::exists(path("clip.gif")));

  cancel_ = false, job.resume = true;
  KeptSink sink;
  EXPECT_TRUE(make(job, sink));
  EXPECT_THAT(sink.event_names(), testing::ElementsAre("resume", "done"));
  EXPECT_GT(sink.events[0].at("step"), 0);
  EXPECT_EQ(test::read_text(path("clip.gif")), test::read_text(path("whole.gif")));

  KeptSink again;
  EXPECT_FALSE(make(job, again)) << "it is complete";
  EXPECT_THAT(again.event_names(), testing::ElementsAre("complete"));
}

TEST_F(Jobs, WarningsAreThoseOfTheirOwnJob) {
  JobSpec stretched = spec("a.gif");
  stretched.settings.request.image = nullptr;
  stretched.settings.request.prompt = std::string(3000, 'a') + " b c d e f g h i j k l m n";
  stretched.settings.request.max_text_tokens = 8;
  KeptSink first, second, third;
  make(stretched, first);
  JobSpec plain = spec("b.gif");
  make(plain, second);
  stretched.output = path("c.gif");
  make(stretched, third);
  EXPECT_THAT(first.notices, Contains(HasSubstr("warning:")));
  EXPECT_THAT(second.notices, IsEmpty()) << "another job's warning";
  EXPECT_EQ(third.notices, first.notices) << "the second job with it is told as well";
}

TEST_F(Jobs, WhatIsAskedForInVain) {
  KeptSink sink;
  JobSpec job = spec("clip.avi");
  EXPECT_THROW(make(job, sink), Error);
  job = spec("clip.mp4"), job.streamed = true, job.resume = true;
  EXPECT_THROW(make(job, sink), Error);
  job = spec("clip.mp4"), job.preview = job.output;
  EXPECT_THROW(make(job, sink), Error);
  write("theirs.png", "somebody else's");
  job = spec("clip.mp4"), job.preview = path("theirs.png");
  EXPECT_THROW(make(job, sink), Error);
  EXPECT_THAT(files(), testing::ElementsAre("theirs.png")) << "nothing half-written";
}

TEST(JobSpecs, WhatStreamsWithoutSayingHow) {
  VideoRequest r;
  settle_stream(r, false);
  EXPECT_EQ(r.preset, "self-forcing-4");
  VideoRequest own;
  own.sampler = "euler";
  settle_stream(own, false);
  EXPECT_FALSE(own.preset);
  VideoRequest whole;  // `block` 0 was asked for
  settle_stream(whole, true);
  EXPECT_FALSE(whole.preset);
}

}  // namespace
}  // namespace tachy::jobs
