// `generate --ranks` gives the same file as a run without it. The tests also cover what the plan says about
// ranks, and the exit codes where they are not supported.
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "binary.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class Ranks : public CliTest {
 protected:
  std::vector<std::string> clip(std::vector<std::string> more) const {
    more.insert(more.end(), {"a red cat", "--size", "32x16", "--frames", "5", "--steps", "2", "--seed", "3"});
    return generate(more);
  }
};

TEST_F(Ranks, AnyNumberGivesTheSameFile) {
  ASSERT_EQ(run(clip({"-o", "one.mp4", "--save-latents", "one.safetensors", "-q"})).code, 0);
  for (const char* ranks : {"1", "2", "3", "16"})
    for (const char* guidance : {"1", "4"}) {
      const std::vector<std::string> scale{"--guidance-scale", guidance, "-q"};
      const auto with = [&](std::vector<std::string> more) {
        more.insert(more.end(), scale.begin(), scale.end());
        return clip(std::move(more));
      };
      ASSERT_EQ(run(with({"-o", "a.mp4", "-t", "3"})).code, 0);
      const Done done = run(with({"-o", "b.mp4", "-t", "3", "--ranks", ranks}));
      ASSERT_EQ(done.code, 0) << done.err;
      EXPECT_EQ(read_text(path("a.mp4")), read_text(path("b.mp4")))
          << ranks << " ranks, guidance " << guidance;
      fs::remove(path("a.mp4")), fs::remove(path("b.mp4"));
    }
}

TEST_F(Ranks, ThePlanShowsTheirShares) {
  const Done text = run(clip({"--plan", "--ranks", "3"}));
  EXPECT_THAT(text.out, HasSubstr("rank"));
  const Done done = run(clip({"--plan", "--json", "--ranks", "4", "-t", "6"}));
  const json plan = json::parse(done.out);
  ASSERT_EQ(plan.at("ranks").size(), 4U);
  EXPECT_EQ(plan.at("ranks").at(0).at("threads"), 2);
  EXPECT_EQ(plan.at("ranks").at(3).at("first_branch"), 1);
  EXPECT_TRUE(json::parse(run(clip({"--plan", "--json"})).out).at("ranks").empty());
}

TEST_F(Ranks, MayShareAPassAsAsked) {
  const Done done = run(clip({"--plan", "--json", "--ranks", "4", "--parallel", "ulysses=2,cfg=2"}));
  ASSERT_EQ(done.code, 0) << done.err;
  const json parallel = json::parse(done.out).at("parallel");
  EXPECT_EQ(parallel.at("cfg"), 2);
  EXPECT_EQ(parallel.at("ulysses"), 2);
  EXPECT_EQ(parallel.at("ring"), 1);
  EXPECT_EQ(parallel.at("equal_bits"), true);
  EXPECT_THAT(parallel.at("why"), HasSubstr("as asked for"));
  EXPECT_TRUE(json::parse(run(clip({"--plan", "--json"})).out).at("parallel").is_null());
  EXPECT_THAT(run(clip({"--plan", "--ranks", "2"})).out,
              HasSubstr("ranks share a pass by cfg=2,ulysses=1,ring=1: "));
}

// Each rank's work is told, the wait for the others and the exchange by names of their own, and the file is the same.
TEST_F(Ranks, AProfileTellsWhatEachDid) {
  const std::vector<std::string> scale{"--guidance-scale", "1", "-q"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), scale.begin(), scale.end());
    return clip(std::move(more));
  };
  ASSERT_EQ(run(with({"-o", "a.mp4", "-t", "3"})).code, 0);
  const Done done = run(clip(
      {"--guidance-scale", "1", "--json", "-o", "b.mp4", "-t", "3", "--ranks", "3", "--profile", "p.json"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(read_text(path("a.mp4")), read_text(path("b.mp4")));
  json ranks;
  std::istringstream lines(done.out);
  for (std::string line; std::getline(lines, line);)
    if (const json event = json::parse(line); event.at("event") == "profile") ranks = event.at("ranks");
  std::map<std::string, int> seen;
  for (const json& rank : ranks) {
    const std::string stage = rank.at("stage");
    ++seen[stage];
    double all = 0;
    std::set<std::string> parts;
    for (const json& part : rank.at("parts"))
      all += part.at("us").get<double>(), parts.insert(part.at("part"));
    EXPECT_NEAR(all, rank.at("whole_us").get<double>(), 1);
    if (stage != "transformer") continue;
    for (const char* name : {"wait for ranks", "heads that come", "heads that go back"})
      EXPECT_TRUE(parts.contains(std::string("self-attention/attention/") + name)) << name;
    EXPECT_EQ(rank.at("passes"), 1) << "two steps, of which the first is left out";
  }
  EXPECT_EQ(seen["transformer"], 3);
  EXPECT_EQ(seen["decode"], 2) << "there are two rows of latents";
  const Done text = run(with({"-o", "c.mp4", "--ranks", "2", "--profile", "q.json"}));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(read_text(path("p.json")), HasSubstr("rank 2"));
}

// The settings tell how ranks shared a pass only where that changed the bits.
TEST_F(Ranks, SettingsTellOfARing) {
  const auto settings = [&](const char* parallel) {
    const Done done = run(clip({"-o", "r.mp4", "-q", "--ranks", "2", "--parallel", parallel}));
    EXPECT_EQ(done.code, 0) << done.err;
    const json out = json::parse(read_text(path("r.json")));
    fs::remove(path("r.mp4")), fs::remove(path("r.json"));
    return out;
  };
  EXPECT_FALSE(settings("ulysses=2").contains("parallel"));
  EXPECT_EQ(settings("ring=2").at("parallel"), "cfg=1,ulysses=1,ring=2");
  ASSERT_EQ(run(clip({"-o", "r.mp4", "-q", "--ranks", "2", "--parallel", "ring=2"})).code, 0);
  const Done again = run(generate({"--from", "r.json", "-o", "again.mp4"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("was made with --parallel cfg=1,ulysses=1,ring=2, and this run has auto"));
}

TEST_F(Ranks, ALayoutThatCannotBeReadIsTold) {
  const std::pair<const char*, const char*> bad[] = {{"cfg=2", "is for 2 ranks, but --ranks is 4"},
                                                     {"cfg=2,cfg=2", "cfg twice"},
                                                     {"heads=4", "got 'heads=4'"},
                                                     {"ring=four", "got 'ring=four'"},
                                                     {"ring=", "got 'ring='"},
                                                     {"cfg=0,ulysses=4", "expected 1 to 16 of cfg, got 0"},
                                                     {"", "expected auto, or cfg=A,ulysses=B,ring=C"},
                                                     {"ring=4,", "expected auto, or cfg=A,ulysses=B,ring=C"}};
  for (const auto& [text, told] : bad) {
    const Done done = run(clip({"--ranks", "4", "--parallel", text}));
    EXPECT_EQ(done.code, 2) << text;
    EXPECT_THAT(done.err, HasSubstr(told)) << text;
  }
}

TEST_F(Ranks, WhatHasNoneIsRefused) {
  const Done gpu = run(clip({"--ranks", "2", "--device", "cuda"}));
  EXPECT_EQ(gpu.code, 2);
  EXPECT_THAT(gpu.err, HasSubstr("--ranks: only a run on the CPU has several"));
  const Done blocks = run(clip({"--ranks", "2", "--block", "1", "--parallel", "ring=2"}));
  EXPECT_EQ(blocks.code, 5) << blocks.err;
  EXPECT_THAT(blocks.err,
              HasSubstr("--parallel: keys of a video that is made block by block cannot go round"));
  EXPECT_EQ(run(clip({"--ranks", "two"})).code, 2);
  EXPECT_TRUE(files().empty());
}

// None of these is about the GPUs of this machine, of which there may be none.
TEST_F(Ranks, GpusThatCannotShareAClipAreTold) {
  struct Bad {
    std::vector<std::string> options;
    int code;
    const char* told;
  };
  const Bad bad[] = {
      {{"--gpus", "2", "--device", "cpu"}, 2, "--gpus: they are not the CPU"},
      {{"--gpus", "0,1", "--device", "cpu"}, 2, "--gpus: they are not the CPU"},
      {{"--gpus", "2,2"}, 2, "--gpus: 2 is there twice in '2,2'"},
      {{"--gpus", "two"}, 2, "--gpus: expected a number of GPUs"},
      {{"--gpus", "-1"}, 2, "--gpus"},
      {{"--gpus", "0"}, 2, "--gpus: expected one GPU or more"},
      {{"--gpus", "999"}, 5, "--gpus: "},
      {{"--gpus", "0,998"}, 5, "--gpus: "},
      {{"--gpus", "2", "--ranks", "2"}, 2, "--ranks: they are on the CPU; leave them or --gpus out"},
      {{"--gpus", "2", "--parallel", "heads=2"}, 2, "--parallel: expected auto"},
      {{"--gpus", "2", "--distributed"}, 2, "--gpus: several processes (--distributed)"},
  };
  for (const Bad& b : bad) {
    const Done done = run(clip(b.options));
    EXPECT_EQ(done.code, b.code) << b.told << '\n' << done.err;
    EXPECT_THAT(done.err, HasSubstr(b.told));
  }
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace tachy::test
