// The process that runs the jobs is killed again and again. No job is lost, none is made twice, and each file
// has the bytes of a run that nothing disturbed. TACHY_TEST_KILLS sets how often it is killed.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "shop_floor.h"
#include "workers/crashes.h"

namespace tachy {
namespace {

using namespace test;

const Small kJobs[] = {{.steps = 24, .frames = 17, .width = 96, .height = 96},
                       {.steps = 12, .frames = 33, .seed = 8},
                       {.steps = 20, .frames = 9, .width = 96, .seed = 9}};

pid_t start_child(const fs::path& files) {
  const pid_t child = fork();
  if (child == 0) {
    execl(TACHY_WORKERS_CHILD, TACHY_WORKERS_CHILD, files.c_str(), sprites().c_str(), nullptr);
    _exit(98);
  }
  return child;
}

// Waits for the child's end, or kills it after this many seconds. Returns whether it was killed.
bool killed_after(pid_t child, double seconds) {
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
       std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) != child) continue;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    return false;
  }
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  return true;
}

TEST(Killed, JobsGoOnToTheSameBytes) {
  const char* wanted = std::getenv("TACHY_TEST_KILLS");
  const int kills = wanted ? std::atoi(wanted) : 5;
  TemporaryFiles files;
  std::vector<std::string> ids;
  {
    queue::SqliteTable table(files.path / "tachyscope.db");
    for (int i = 0; i < std::max(kills / 2, 3); ++i) ids.push_back(put(table, files.path, kJobs[i % 3]));
  }
  std::mt19937 random(static_cast<unsigned>(kills));
  int hits = 0;
  for (int i = 0; i < kills; ++i) {
    const double seconds = std::uniform_real_distribution(0.05, 1.5)(random);
    if (!killed_after(start_child(files.path), seconds)) break;
    ++hits;
  }
  EXPECT_FALSE(killed_after(start_child(files.path), 300));
  EXPECT_GT(hits, 0);

  queue::SqliteTable table(files.path / "tachyscope.db");
  std::string whole[3];
  EXPECT_EQ(table.counts().completed, static_cast<int64_t>(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i) {
    std::string& expected = whole[i % 3];
    if (expected.empty()) {
      TemporaryFiles alone;
      queue::SqliteTable other(alone.path / "tachyscope.db");
      const std::string id = put(other, alone.path, kJobs[i % 3]);
      EXPECT_FALSE(killed_after(start_child(alone.path), 120));
      expected = bytes_of(queue::JobFolder(alone.path, id).video());
      EXPECT_FALSE(expected.empty());
    }
    EXPECT_EQ(table.find(ids[i])->status, Status::completed) << table.find(ids[i])->error.message;
    EXPECT_EQ(bytes_of(queue::JobFolder(files.path, ids[i]).video()), expected)
        << "after " << hits << " kills";
  }
}

TEST(Killed, AJobThatCrashesTheProcessIsGivenUp) {
  TemporaryFiles files;
  JobRow row;
  row.id = queue::new_job_id();
  const queue::JobFolder folder(files.path, row.id);
  fs::create_directories(folder.path);
  using Death = workers::CrashMark::Death;
  EXPECT_FALSE(workers::crashed_too_often(row, folder, Death::crash));
  row.progress = 3;
  EXPECT_FALSE(workers::crashed_too_often(row, folder, Death::crash)) << "it got further";
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(workers::crashed_too_often(row, folder, Death::early_kill));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(workers::crashed_too_often(row, folder, Death::kill));
  EXPECT_TRUE(workers::crashed_too_often(row, folder, Death::crash)) << "twice at the same place";
}

TEST(Killed, ACrashIsToldFromAKill) {
  TemporaryFiles files;
  for (const int signal : {SIGKILL, SIGABRT}) {
    const pid_t child = fork();
    if (child == 0) {
      workers::leave_word_of_crashes();
      const workers::CrashMark mark(files.path);
      raise(signal);
      _exit(97);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    EXPECT_EQ(workers::CrashMark(files.path).death() != workers::CrashMark::Death::crash, signal == SIGKILL);
  }
}

}  // namespace
}  // namespace tachy
