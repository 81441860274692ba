// Tests ids, the folders of jobs and of the server, and the turn of a job as it is kept beside the table.
#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "queue/files_lock.h"
#include "queue/turn_queue.h"
#include "small_disk.h"
#include "table_case.h"

namespace tachy::queue {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(JobIds, AreRandomAndKnown) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) ids.insert(new_job_id());
  EXPECT_EQ(ids.size(), 100u);
  for (const std::string& id : ids) EXPECT_TRUE(is_job_id(id)) << id;
  const std::string digits(31, 'a');
  for (const std::string& id :
       {std::string(), "video_" + digits, "video_" + digits + "aa", "video_" + digits + "g",
        "video_" + digits + "A", "Video_" + digits + "a", "video_/" + digits})
    EXPECT_FALSE(is_job_id(id)) << id;
}

class Files : public Folder {};

TEST_F(Files, AreOneServersAlone) {
  const fs::path files = folder_ / "a" / "files";
  {
    const FilesLock lock(files);
    for (const char* name : {"", "jobs", "spool"})
      EXPECT_EQ(fs::status(files / name).permissions(), fs::perms::owner_all) << name;
    const std::string said = in_child([&]() -> std::string { return FilesLock(files).files(); });
    EXPECT_THAT(said, HasSubstr(fmt::format("another server (process {}) has this folder", getpid())));
    // Last: a second file that this process closes takes its number away, though not the lock.
    EXPECT_THAT(message_of(ErrorCode::io, [&] { FilesLock second(files); }), HasSubstr("another server"));
  }
  FilesLock again(files);
  EXPECT_EQ(again.database(), files / "tachyscope.db");
}

TEST_F(Files, AreFreeAfterAKill) {
  const fs::path files = folder_ / "files";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FilesLock lock(files);
    [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THROW(FilesLock second(files), Error);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(FilesLock second(files));
}

TEST_F(Files, KeepTheRightsThatSomebodyGave) {
  const fs::path files = folder_ / "files";
  fs::create_directory(files);
  fs::permissions(files, fs::perms::owner_all | fs::perms::group_read);
  const FilesLock lock(files);
  EXPECT_EQ(fs::status(files).permissions(), fs::perms::owner_all | fs::perms::group_read);
  EXPECT_EQ(fs::status(files / "jobs").permissions(), fs::perms::owner_all);
}

TEST_F(Files, ThatCannotBeAFolderAreReported) {
  { std::ofstream(folder_ / "file") << "x"; }
  EXPECT_THAT(message_of(ErrorCode::io, [&] { FilesLock lock(folder_ / "file"); }), HasSubstr("folder"));
  EXPECT_THAT(message_of(ErrorCode::io, [&] { FilesLock lock(folder_ / "file/below"); }),
              HasSubstr("folder"));
}

TEST_F(Files, AreSharedByHostsOfOtherNames) {
  const fs::path files = folder_ / "files";
  const FilesLock one(files, "one"), two(files, "two.b");
  EXPECT_EQ(one.id().size(), 32u);
  EXPECT_EQ(one.id(), two.id());
  EXPECT_EQ(one.spool(), files / "hosts/one/spool");
  EXPECT_TRUE(fs::is_directory(two.spool()));
  const std::string said = in_child([&]() -> std::string { return FilesLock(files, "one").files(); });
  EXPECT_THAT(said, HasSubstr("choose another name"));
  for (const char* name : {"a/b", "..", "", " "})
    if (*name) EXPECT_THROW(FilesLock(files, name), Error) << name;
}

// Whoever has the one table would take the other's jobs for folders without a row, and remove them.
TEST_F(Files, OfOneServerAndOfHostsAreNotMixed) {
  { const FilesLock hosts(folder_ / "shared", "one"); }
  EXPECT_THAT(message_of(ErrorCode::io, [&] { FilesLock lock(folder_ / "shared"); }), HasSubstr("database"));
  {
    const FilesLock alone(folder_ / "alone");
    std::ofstream(alone.database()) << "x";
  }
  EXPECT_THAT(message_of(ErrorCode::io, [&] { FilesLock lock(folder_ / "alone", "one"); }),
              HasSubstr("a table of its own"));
}

TEST_F(Files, LieWhereTheUserKeepsData) {
  const std::string said = in_child([&]() -> std::string {
    setenv("XDG_DATA_HOME", "/data", 1);
    std::string all = default_files();
    setenv("XDG_DATA_HOME", "relative", 1), setenv("HOME", "/home/anna", 1);
    return all + " " + default_files().string();
  });
  EXPECT_EQ(said, "/data/tachyscope /home/anna/.local/share/tachyscope");
}

class Turns : public Table {};
INSTANTIATE_TEST_SUITE_P(Sqlite, Turns, testing::Values(Kind::sqlite));

TEST_P(Turns, AreForecastAndFollowTheTable) {
  TurnQueue queue(table());
  EXPECT_TRUE(queue.order().empty());
  const JobRow a = added("", 10), b = added("", 20);
  ASSERT_EQ(queue.order().size(), 2u);
  EXPECT_EQ(queue.find(a.id)->position, 0);
  EXPECT_EQ(queue.find(b.id)->position, 1);
  EXPECT_NEAR(queue.find(b.id)->start_seconds, 10, 0.5);
  queue.set({"wan"}, {100}, 2);
  EXPECT_NEAR(queue.find(b.id)->start_seconds, 120, 0.5);
  const TurnQueue::Place place = queue.would_get({.owner = "", .needs = "wan", .planned_seconds = 5});
  EXPECT_EQ(place.position, 2);
  EXPECT_NEAR(place.start_seconds, 160, 0.5);
  EXPECT_EQ(queue.would_get({.needs = "wan", .priority = 1}).position, 0);
  table().set_paused(a.id, true);
  EXPECT_FALSE(queue.find(a.id).has_value());
  EXPECT_EQ(queue.find(b.id)->position, 0);
  EXPECT_FALSE(queue.claim(a.id, "w").has_value());
  EXPECT_TRUE(queue.claim(b.id, "w").has_value());
  EXPECT_FALSE(queue.find(b.id).has_value());
}

TEST_P(Turns, AreToldAtOnceUnlessTheyAreOutdated) {
  TurnQueue queue(table());
  const JobRow a = added("", 10), b = added("", 20);
  std::optional<TurnQueue::Place> place;
  EXPECT_FALSE(queue.find_now(b.id, place)) << "there is no order yet";
  queue.order();
  ASSERT_TRUE(queue.find_now(b.id, place));
  EXPECT_EQ(place->position, 1);
  EXPECT_NEAR(place->start_seconds, 10, 0.5);
  table().set_paused(a.id, true);
  EXPECT_FALSE(queue.find_now(b.id, place));
  queue.order();
  ASSERT_TRUE(queue.find_now(b.id, place));
  EXPECT_EQ(place->position, 0);
  ASSERT_TRUE(queue.find_now(a.id, place));
  EXPECT_FALSE(place.has_value());
}

// A table whose answer about the jobs that wait can be held back.
class SlowTable : public SqliteTable {
 public:
  using SqliteTable::SqliteTable;
  std::vector<WaitingJob> waiting() override {
    asked = true;
    while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return SqliteTable::waiting();
  }
  std::atomic<bool> held = false, asked = false;
};

TEST_F(Folder, ATurnIsToldWhileTheNextOrderIsComputed) {
  SlowTable table(file());
  TurnQueue queue(table);
  const std::string id = table.insert(a_job(), "", "", 0, 0).row.id;
  queue.order();
  table.held = true, table.asked = false;
  const std::string added = table.insert(a_job(), "", "", 0, 0).row.id;
  std::thread computing([&] { EXPECT_EQ(queue.order().size(), 2u); });
  while (!table.asked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::optional<TurnQueue::Place> place;
  EXPECT_TRUE(queue.find_now(id, place));
  EXPECT_TRUE(place.has_value());
  EXPECT_FALSE(queue.find_now(added, place)) << "the order before has not got it";
  std::thread asking([&] { EXPECT_TRUE(queue.find(added).has_value()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  table.held = false;
  computing.join(), asking.join();
  EXPECT_TRUE(queue.find_now(added, place));
}

// Jobs whose model is loaded come one after another: the one with the other model is passed over as far as it
// may be.
TEST_P(Turns, KeepTheAccountOfWhoIsPassedOver) {
  TurnQueue queue(table());
  queue.set({"A"}, {0}, 1);
  JobRow other = a_job("", 10);
  other.needs = "B";
  added(other);
  for (int before = 0; before < 20; ++before) {
    JobRow job = a_job("", 20);
    job.needs = "A";
    added(job);
    const std::string next = queue.order().at(0).job.id;
    ASSERT_TRUE(queue.claim(next, "w").has_value());
    if (next == other.id) {
      EXPECT_EQ(before, 3);  // 3 x 20 seconds are within 60 + 10, and 4 are not
      return;
    }
  }
  FAIL() << "it was passed over for ever";
}

}  // namespace
}  // namespace tachy::queue
