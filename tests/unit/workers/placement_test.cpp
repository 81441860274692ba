// Tests which of several hosts takes a job, and what is said of it.
#include "workers/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tachy::workers {
namespace {

using testing::HasSubstr;

Host a_host(const std::string& name, std::vector<std::string> models, std::vector<std::string> loaded = {}) {
  Host host;
  host.row = {.name = name, .address = "", .files = "f-" + name, .about = ""};
  host.about.models = std::move(models), host.about.loaded = std::move(loaded);
  host.about.memory_bytes = 1000;
  return host;
}

queue::WaitingJob a_job(const std::string& model, const std::string& needs = "") {
  return {.id = "video_1", .owner = "", .model = model, .needs = needs.empty() ? model : needs};
}

TEST(Placement, LeavesWhatItCannotMake) {
  const Host self = a_host("a", {"wan"});
  EXPECT_TRUE(place(a_job("wan"), self, {}, 0).take);
  const Placement other = place(a_job("talker"), self, {}, 100);
  EXPECT_FALSE(other.take);
  EXPECT_THAT(other.why, HasSubstr("`talker`"));
  Host with = self;
  with.about.loras = {"style", "a:b"};
  EXPECT_FALSE(place(a_job("wan", "wan\nstyle:0.8@high"), self, {}, 100).take);
  EXPECT_TRUE(place(a_job("wan", "wan\nstyle:0.8@high"), with, {}, 0).take);
  EXPECT_TRUE(place(a_job("wan", "wan\nstyle\na:b:1e-05"), with, {}, 0).take);
  EXPECT_FALSE(place(a_job("wan", "wan\nstyle\nb"), with, {}, 0).take);
}

TEST(Placement, OfJoinedVideosIsAnybodys) { EXPECT_TRUE(place(a_job(""), a_host("a", {"wan"}), {}, 0).take); }

TEST(Placement, LeavesAJobForASecondToWhoHasItsModelInMemory) {
  const Host self = a_host("a", {"wan", "talker"}, {"talker"});
  const std::vector<Host> hosts = {self, a_host("b", {"wan"}, {"wan"})};
  EXPECT_FALSE(place(a_job("wan"), self, hosts, 0.5).take);
  EXPECT_THAT(place(a_job("wan"), self, hosts, 0.5).why, HasSubstr("b has `wan` in memory"));
  EXPECT_TRUE(place(a_job("wan"), self, hosts, 1.5).take);
  EXPECT_TRUE(place(a_job("talker"), self, hosts, 0).take);
  std::vector<Host> busy = hosts;
  busy[1].about.running = 1;
  EXPECT_TRUE(place(a_job("wan"), self, busy, 0.5).take);
  std::vector<Host> api = hosts;
  api[1].about.role = "api";
  EXPECT_TRUE(place(a_job("wan"), self, api, 0.5).take);
}

TEST(Placement, GoesOnWhereTheStateIs) {
  const Host self = a_host("a", {"wan"}), other = a_host("b", {"wan"});
  queue::WaitingJob job = a_job("wan");
  job.attempts = 1, job.files = "f-b";
  const std::vector<Host> both = {self, other}, alone = {self};
  EXPECT_FALSE(place(job, self, both, 100).take);
  EXPECT_TRUE(place(job, other, both, 0).take);
  EXPECT_TRUE(place(job, self, alone, 0).take) << "its host is gone";
  EXPECT_THAT(place(job, self, alone, 0).why, HasSubstr("made again"));
  const std::vector<Host> cannot = {self, a_host("b", {"talker"})};
  EXPECT_TRUE(place(job, self, cannot, 0).take) << "the host of the state has the model no longer";
}

TEST(Placement, IsExplainedToWhoWaits) {
  const std::vector<Host> hosts = {a_host("a", {"wan"})};
  EXPECT_THAT(why_waiting(a_job("wan"), hosts, 3), HasSubstr("3 before it"));
  EXPECT_THAT(why_waiting(a_job("wan"), hosts, 0), HasSubstr("next"));
  EXPECT_THAT(why_waiting(a_job("talker"), hosts, 0),
              HasSubstr("no worker that is there has the model `talker`"));
  EXPECT_EQ(why_waiting(a_job("wan"), {}, 0), "no worker is there");
  std::vector<Host> full = hosts;
  for (Host& host : full) host.about.full = true;
  EXPECT_THAT(why_waiting(a_job("wan"), full, 0), HasSubstr("full"));
  full.push_back(a_host("z", {"wan"}));
  EXPECT_THAT(why_waiting(a_job("wan"), full, 0), HasSubstr("next"));
}

TEST(Placement, KnowsWhoHasMoreMemory) {
  const Host small = a_host("a", {"wan"});
  Host large = a_host("b", {"wan"});
  large.about.memory_bytes = 2000;
  const std::vector<Host> hosts = {small, large};
  EXPECT_EQ(larger_host(a_job("wan"), small, hosts), "b");
  EXPECT_EQ(larger_host(a_job("wan"), large, hosts), "");
  EXPECT_EQ(larger_host(a_job("talker"), small, hosts), "");
}

TEST(Presence, TellsOfAHostAsText) {
  HostAbout about;
  about.role = "worker", about.device = "NVIDIA H100", about.cards = 1, about.memory_bytes = 1u << 30;
  about.models = {"wan"}, about.loras = {"style"}, about.loaded = {"wan"}, about.running = 1;
  about.full = true;
  about.step_seconds = {{"wan 480x272", 0.25}};
  about.jobs = {{"video_1", {.stage = "denoise", .done = 2, .total = 8, .eta_seconds = 12.5}}};
  EXPECT_EQ(to_text(about_of(to_text(about))), to_text(about));
  EXPECT_EQ(about_of(to_text(about)).jobs.at("video_1").stage, "denoise");
  EXPECT_EQ(about_of(R"({"jobs": {"a": 3, "b": {"stage": 4, "done": "x"}}})").jobs.at("b").done, 0);
  EXPECT_EQ(about_of("").role, "both");
  EXPECT_EQ(about_of(R"({"models": 3, "running": "x", "new": 1})").running, 0);
}

TEST(Presence, LearnsTheSecondsOfAStep) {
  StepTimes times;
  for (int i = 0; i < 100; ++i)
    times.measured(
        {{"event", "step"}, {"stage", "denoise"}, {"model", "wan"}, {"size", "8x8"}, {"seconds", 2.0}});
  times.measured(
      {{"event", "step"}, {"stage", "decode"}, {"model", "wan"}, {"size", "8x8"}, {"seconds", 50.0}});
  EXPECT_NEAR(times.means().at("wan 8x8"), 2.0, 1e-6);
}

}  // namespace
}  // namespace tachy::workers
