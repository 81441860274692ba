// Tests the lock on an output: there is one holder at a time, however the folder is spelled, and a killed
// holder leaves nothing behind.
#include "base/output_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Locks : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tachyscope-lock-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Starts a process that holds the lock until it is killed.
  pid_t holder(const fs::path& output) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      const OutputLock lock(output);
      [[maybe_unused]] const ssize_t told = write(ready[1], "", 1);
      for (;;) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]), close(ready[1]);
    return child;
  }
  static std::string refusal(const fs::path& output) {
    try {
      const OutputLock lock(output);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::io);
      return e.message();
    }
    return "";
  }
  static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }

  fs::path folder_;
};

TEST_F(Locks, OneAtATimeAndNothingIsLeft) {
  const fs::path output = folder_ / "a.mp4";
  {
    const OutputLock lock(output);
    EXPECT_TRUE(fs::exists(OutputLock::file_of(output)));
    EXPECT_FALSE(OutputLock::attempt(output).has_value());
    EXPECT_TRUE(OutputLock::attempt(folder_ / "b.mp4").has_value());
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_EQ(refusal(output), "");
}

TEST_F(Locks, TheHolderIsNamedHoweverTheFolderIsSpelled) {
  fs::create_directory(folder_ / "real");
  fs::create_directory_symlink(folder_ / "real", folder_ / "link");
  const pid_t child = holder(folder_ / "real/a.mp4");
  const std::string pid = fmt::format("({})", child);
  for (const char* name : {"real/a.mp4", "link/a.mp4", "real/../link/./a.mp4", "real//a.mp4"})
    EXPECT_THAT(refusal(folder_ / name), AllOf(HasSubstr("another process " + pid), HasSubstr(name)));
  const fs::path before = fs::current_path();
  fs::current_path(folder_ / "real");
  EXPECT_THAT(refusal("a.mp4"), HasSubstr(pid));
  fs::current_path(before);
  end(child);
  EXPECT_EQ(refusal(folder_ / "link/a.mp4"), "") << "it was killed";
  EXPECT_TRUE(fs::is_empty(folder_ / "real")) << "what it left is removed";
}

TEST_F(Locks, NamesOfAnyLength) {
  for (const size_t size : {200u, 238u, 240u, 255u}) {
    const fs::path output = folder_ / std::string(size, 'x'),
                   other = folder_ / (std::string(size - 1, 'x') + "y");
    const OutputLock lock(output);
    EXPECT_EQ(refusal(other), "") << "the same beginning, another name";
    EXPECT_NE(refusal(output), "");
  }
  std::string wide;
  for (int i = 0; i < 85; ++i) wide += "猫";
  EXPECT_EQ(refusal(folder_ / wide), "");
}

TEST_F(Locks, WhatIsNoLockStays) {
  const fs::path output = folder_ / "a.mp4", file = OutputLock::file_of(output);
  std::ofstream(file) << "mine";
  EXPECT_THAT(refusal(output), HasSubstr("not a lock of this program"));
  EXPECT_EQ(fs::file_size(file), 4u);
  EXPECT_THAT(refusal(folder_ / "none/a.mp4"), HasSubstr("make it first"));
}

// Four processes take the lock alternately, each for a moment: there are never two at once.
TEST_F(Locks, ManyProcesses) {
  const fs::path output = folder_ / "a.mp4", inside = folder_ / "inside";
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    for (int taken = 0; taken < 20;) {
      const auto lock = OutputLock::attempt(output);
      if (!lock) continue;
      if (!fs::create_directory(inside)) _exit(1);  // another process is inside
      fs::remove(inside);
      ++taken;
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace tachy
