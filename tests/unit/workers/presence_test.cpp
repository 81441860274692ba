// Hosts that share a queue tell of themselves, and keep what others have told.
#include "workers/presence.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "shop_floor.h"

namespace tachy::test {
namespace {

// A table with many hosts, which counts who writes and who reads.
class CrowdedTable : public queue::SqliteTable {
 public:
  CrowdedTable(const fs::path& file, int beside) : queue::SqliteTable(file), others(beside) {}
  void announce(const queue::HostRow&) override { ++announced; }
  std::vector<queue::HostRow> hosts() override {
    check(!away, ErrorCode::io, "the table is away");
    ++reads;
    workers::HostAbout about;
    about.jobs = {{"video_1", {.stage = "denoise", .done = 2, .total = 8, .eta_seconds = 100}}};
    std::vector<queue::HostRow> rows;
    for (int i = 0; i < others; ++i)
      rows.push_back({.name = "h" + std::to_string(i),
                      .address = "",
                      .files = "f",
                      .about = to_text(about),
                      .alive = i != 1,
                      .silent_seconds = 4});
    return rows;
  }
  std::atomic<int> announced = 0, reads = 0, others;
  std::atomic<bool> away = false;
};

class Crowd : public ShopFloor {
 protected:
  static int reads_beside(int others);
};

// Announces a host three times beside that many others. Returns how often their words were read.
int Crowd::reads_beside(int others) {
  TemporaryFiles files;
  CrowdedTable table(files.path / "tachyscope.db", others);
  workers::Presence presence(table, [] { return workers::Host{}; });
  presence.start();
  for (int told = 2; told <= 3; ++told) {
    presence.announce_now();
    EXPECT_TRUE(wait([&] { return table.announced >= told; }));
  }
  presence.stop();
  return table.reads;
}

TEST_F(Crowd, ReadsTheWordsOfManyHostsLessOften) {
  EXPECT_EQ(reads_beside(3), 3);
  EXPECT_EQ(reads_beside(1000), 1)
      << "a thousand rows five times a second would be too much for the database";
}

TEST_F(Crowd, KnowsHowFarJobsOfOtherHostsAre) {
  TemporaryFiles files;
  CrowdedTable table(files.path / "tachyscope.db", 2);
  workers::Presence presence(table, [] { return workers::Host{}; });
  presence.start();
  const auto job = presence.job_of("h0", "video_1");
  ASSERT_TRUE(job);
  EXPECT_EQ(job->stage, "denoise");
  EXPECT_EQ(job->total, 8);
  EXPECT_LE(job->eta_seconds, 96) << "four seconds ago they were 100";
  EXPECT_GT(job->eta_seconds, 60);
  EXPECT_FALSE(presence.job_of("h0", "video_2"));
  EXPECT_FALSE(presence.job_of("h1", "video_1")) << "that host is gone";
  EXPECT_FALSE(presence.job_of("h2", "video_1"));
}

TEST_F(Crowd, IsReadAgainForWhoMissesOneOfThem) {
  TemporaryFiles files;
  CrowdedTable table(files.path / "tachyscope.db", 1);
  workers::Presence presence(table, [] { return workers::Host{}; });
  presence.start();
  EXPECT_EQ(presence.hosts().size(), 1u);
  table.others = 3;  // of whom the second is gone
  EXPECT_TRUE(presence.look_again());
  EXPECT_TRUE(wait([&] { return presence.look_again() && presence.hosts().size() == 2; }));
  const int reads = table.reads;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(presence.look_again());
  EXPECT_LT(table.reads - reads, 100) << "whoever asks often would keep the database busy";
  table.away = true;
  EXPECT_TRUE(wait([&] { return !presence.look_again(); })) << "nothing new is known";
  EXPECT_EQ(presence.hosts().size(), 2u) << "what was read stays";
  table.away = false;
}

TEST_F(Crowd, IsReadAgainForWhoAsksHowFarAJobIs) {
  TemporaryFiles files;
  CrowdedTable table(files.path / "tachyscope.db", 1);
  workers::Presence presence(table, [] { return workers::Host{}; });
  presence.start();
  EXPECT_FALSE(presence.job_of("h2", "video_1"));
  table.others = 3;  // that host has begun since
  EXPECT_TRUE(wait([&] { return presence.job_of("h2", "video_1").has_value(); }));
  EXPECT_EQ(table.announced, 1) << "an announcement of this host would have read them, too";
  const int reads = table.reads;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(presence.job_of("h2", "video_1"));
  EXPECT_LT(table.reads - reads, 100) << "whoever asks often would keep the database busy";
  table.away = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(350));
  EXPECT_TRUE(presence.job_of("h2", "video_1")) << "what was read stays";
  table.away = false;
}

// A finished video leaves its place before its row says so (RunningJob::left()).
class LeftPlace : public ShopFloor {};

TEST_F(LeftPlace, IsToldAsFreeThoughTheRowIsInProgress) {
  std::atomic<bool> storing = false, go_on = false;
  options_.store = [&](const JobRow&, const queue::JobFolder&) {
    storing = true;
    while (!go_on) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  open();
  const std::string id = add({});
  EXPECT_TRUE(wait([&] { return storing.load(); }));
  EXPECT_EQ(row(id).status, Status::in_progress);
  workers::HostAbout about;
  foreman_->describe(about);
  EXPECT_EQ(about.running, 0) << "others would take jobs whose model is in memory here";
  EXPECT_TRUE(about.jobs.contains(id));
  go_on = true;
  EXPECT_EQ(ended(id).status, Status::completed);
}

}  // namespace
}  // namespace tachy::test
