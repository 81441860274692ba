// Tests ctrl-C and sudden death: the exit code is 130, nothing has the final name, the old file is untouched,
// and the next run is not affected.
#include <sys/stat.h>

#include "binary.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;

class Interrupt : public CliTest {
 protected:
  // Starts a run that is long enough to be interrupted, and waits until it denoises.
  pid_t start_long(const std::string& output) {
    const pid_t child = start(
        generate({"a cat", "--size", "96x96", "--frames", "33", "--steps", "1000", "--json", "-o", output}));
    for (int i = 0; i < 600; ++i) {
      if (read_text(folder_.string() + ".out").find("denoise") != std::string::npos) return child;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ADD_FAILURE() << "no denoising within 30 s";
    return child;
  }
};

TEST_F(Interrupt, SigintAndSigterm) {
  write("old.mp4", "an old video");
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const char* name : {"old.mp4", "new.webm", "anim.gif", "folder/"}) {
      const pid_t child = start_long(name);
      ASSERT_EQ(kill(child, signal), 0);
      const Done done = finish(child);
      EXPECT_EQ(done.code, 130) << name << done.err;
      EXPECT_THAT(done.err, HasSubstr("cancelled"));
    }
  }
  EXPECT_THAT(files(), testing::ElementsAre("old.mp4"));
  EXPECT_EQ(read_text(path("old.mp4")), "an old video");
  const Done next = run(generate({"a cat", "-o", "old.mp4"}));
  EXPECT_EQ(next.code, 0) << next.err;
  EXPECT_GT(fs::file_size(path("old.mp4")), 1000u);
}

// All frames are made, but the encoder is far behind.
TEST_F(Interrupt, WhileTheEncoderCatchesUp) {
  write("old.mp4", "an old video");
  const pid_t child =
      start(generate({"a cat", "--size", "640x384", "--frames", "33", "--steps", "1", "--encode-speed",
                      "slow", "--state-every", "0", "--json", "-o", "old.mp4"}));
  const std::string all = "\"done\":33";  // number of frames in the last stage
  const auto printed = [&] { return read_text(folder_.string() + ".out").find(all) != std::string::npos; };
  for (int i = 0; i < 6000 && !printed(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(printed());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(kill(child, SIGINT), 0);
  const Done done = finish(child);
  EXPECT_EQ(done.code, 130) << done.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20))
      << "the frames under way end, those that wait do not";
  EXPECT_THAT(done.err, HasSubstr("cancelled"));
  EXPECT_THAT(done.err, HasSubstr("--resume")) << "the denoising need not be repeated";
  EXPECT_THAT(files(), testing::ElementsAre("old.mp4", "old.mp4.resume"));
  EXPECT_EQ(read_text(path("old.mp4")), "an old video");
}

TEST_F(Interrupt, SigkillLeavesNothingUnderTheFinalName) {
  const pid_t child = start_long("new.mp4");
  ASSERT_EQ(kill(child, SIGKILL), 0);
  EXPECT_EQ(finish(child).code, 1000 + SIGKILL);
  EXPECT_FALSE(fs::exists(path("new.mp4")));
  EXPECT_FALSE(fs::exists(path("new.json")));
  EXPECT_EQ(run(generate({"a cat", "-o", "new.mp4"})).code, 0);
}

// Code that does not check whether it should stop (here it opens a pipe that nobody writes to) is not waited
// for.
TEST_F(Interrupt, WhatCannotStopIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(path("prompts").c_str(), 0600), 0);
  const pid_t child = start(generate({"--prompt-file", "prompts", "-o", "new.mp4"}));
  std::this_thread::sleep_for(std::chrono::seconds(1));  // by now the run has begun, and waits
  ASSERT_EQ(kill(child, SIGINT), 0);
  const auto asked = std::chrono::steady_clock::now();
  const Done done = finish(child);
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(20));  // machines may be busy
  EXPECT_EQ(done.code, 130) << done.err;
  EXPECT_EQ(done.err, "tachyscope: cancelled\n");
  EXPECT_THAT(files(), testing::ElementsAre("prompts"));
}

}  // namespace
}  // namespace tachy::test
