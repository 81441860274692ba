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

// Kills the process when the job has got so far, just after somebody has wished its frames kept, and lets another
// process do what it can.
JobRow kept_over_a_kill(const fs::path& files, const Small& small, const std::string& stage) {
  std::string id;
  {
    queue::SqliteTable table(files / "tachyscope.db");
    id = put(table, files, small);
    const pid_t child = start_child(files);
    const auto reached = [&] {
      for (const queue::Event& e : queue::EventBook(files).since(id, 0)) {
        const json data = json::parse(e.data);
        if (data.value("stage", "") == stage && data.value("done", 0) > 0) return true;
      }
      return false;
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!reached() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(table.wish(id, queue::Wish::cancel_keeping_frames, std::nullopt)->status, Status::in_progress);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  EXPECT_FALSE(killed_after(start_child(files), 120));
  return queue::SqliteTable(files / "tachyscope.db").find(id).value();
}

TEST(Killed, FramesThatWereToBeKeptAreMadeAgain) {
  const Small small{.steps = 8, .frames = 65, .width = 96, .height = 96};
  TemporaryFiles files, alone;
  const JobRow done = kept_over_a_kill(files.path, small, "decode");
  ASSERT_EQ(done.status, Status::completed) << done.error.message;
  EXPECT_EQ(json::parse(done.facts)["frames"], 65) << "the latents were complete, so all frames are there";
  std::string id;
  {
    queue::SqliteTable table(alone.path / "tachyscope.db");
    id = put(table, alone.path, small);
  }
  EXPECT_FALSE(killed_after(start_child(alone.path), 120));
  EXPECT_EQ(bytes_of(queue::JobFolder(files.path, done.id).video()),
            bytes_of(queue::JobFolder(alone.path, id).video()));
}

TEST(Killed, WithoutFramesNothingIsMade) {
  TemporaryFiles files;
  const JobRow done = kept_over_a_kill(files.path, {.steps = 200, .frames = 17}, "denoise");
  EXPECT_EQ(done.status, Status::failed);
  EXPECT_EQ(done.error.code, "cancelled");
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
