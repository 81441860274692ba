// `generate --ranks` gives the same file as a run without it. The tests also cover what the plan says about
// ranks, and the exit codes where they are not supported.
#include <nlohmann/json.hpp>

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

TEST_F(Ranks, WhatHasNoneIsRefused) {
  const Done gpu = run(clip({"--ranks", "2", "--device", "cuda"}));
  EXPECT_EQ(gpu.code, 2);
  EXPECT_THAT(gpu.err, HasSubstr("--ranks: only a run on the CPU has several"));
  const Done blocks = run(clip({"--ranks", "2", "--block", "1"}));
  EXPECT_EQ(blocks.code, 5) << blocks.err;
  EXPECT_THAT(blocks.err, HasSubstr("a video that is made block by block cannot be divided among ranks"));
  EXPECT_EQ(run(clip({"--ranks", "two"})).code, 2);
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace tachy::test
