// Tests the table under many hands: threads, two processes, and processes that are killed at any moment.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "small_disk.h"
#include "table_case.h"

namespace tachy::queue {
namespace {

using std::chrono::milliseconds;

void check_whole(Kind kind, const std::filesystem::path& file) {
  if (kind != Kind::sqlite) return;
  Sqlite database(file, Sqlite::Access::read);
  Query query = database.query("PRAGMA integrity_check");
  ASSERT_TRUE(query.next());
  EXPECT_EQ(query.text(0), "ok");
}

// Takes jobs as long as some wait, and returns what it took.
std::vector<std::string> work(JobTable& table, const std::string& worker, size_t most = 1000) {
  std::vector<std::string> taken;
  while (taken.size() < most) {
    const std::vector<WaitingJob> waiting = table.waiting();
    if (waiting.empty()) return taken;
    for (const WaitingJob& job : waiting) {
      std::optional<JobRow> row = table.claim(job.id, worker);
      if (!row) continue;
      row->status = Status::completed;
      EXPECT_TRUE(table.end(*row, worker, std::nullopt));
      taken.push_back(row->id);
      break;
    }
  }
  return taken;
}

class Together : public OfKind {};
TACHY_FOR_BOTH_TABLES(Together);

TEST_P(Together, ThreadsTakeEachJobOnce) {
  const auto opened = place_->open();
  JobTable& table = *opened;
  std::atomic<bool> reading = true;
  std::thread reader([&] {
    for (int64_t last = 0; reading;) {  // a reader sees whole changes, in their order
      const Counts counts = table.counts();
      const int64_t all = counts.queued + counts.running + counts.completed;
      EXPECT_GE(all, last);
      last = all;
      table.list(nullptr, "", 20, false);
    }
  });
  std::vector<std::thread> makers, workers;
  std::atomic<int> made = 0, repeated = 0;
  for (int t = 0; t < 3; ++t)
    makers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto how = table.insert(a_job("anna"), "key" + std::to_string(i), "print", 0, 0).how;
        (how == Inserted::How::made ? made : repeated)++;
      }
    });
  for (auto& thread : makers) thread.join();
  EXPECT_EQ(made, 20);
  EXPECT_EQ(repeated, 40);
  std::vector<std::string> taken[3];
  for (int t = 0; t < 3; ++t)
    workers.emplace_back([&, t] { taken[t] = work(table, "w" + std::to_string(t)); });
  for (auto& thread : workers) thread.join();
  reading = false;
  reader.join();
  std::set<std::string> all;
  size_t count = 0;
  for (const auto& some : taken) all.insert(some.begin(), some.end()), count += some.size();
  EXPECT_EQ(count, 20u);
  EXPECT_EQ(all.size(), 20u);
  EXPECT_EQ(table.counts().completed, 20);
}

// Everybody reads the job, then changes it if it is still what was read: in each round exactly one does.
TEST_P(Together, OfThoseWhoEditAJobAtOnceOneWins) {
  constexpr int kEditors = 4, kRounds = 25;
  const auto opened = place_->open();
  const std::string id = opened->insert(a_job(), "", "", 0, 0).row.id;
  std::barrier all(kEditors);
  std::array<std::atomic<int>, kRounds> won{};
  std::vector<std::thread> editors;
  for (int editor = 0; editor < kEditors; ++editor)
    editors.emplace_back([&, editor] {
      // Half of them are in another process's place, with connections of their own.
      const auto own = GetParam() == Kind::postgres && editor % 2 ? place_->open() : nullptr;
      JobTable& table = own ? *own : *opened;
      for (int round = 0; round < kRounds; ++round) {
        const std::string seen = table.find(id)->request;
        all.arrive_and_wait();
        const auto expect = [&](const JobRow& row) { require(row.request == seen, "it has changed"); };
        try {
          table.change(
              id, {.request = fmt::format("{{\"of\":{},\"round\":{}}}", editor, round), .expect = expect});
          ++won[static_cast<size_t>(round)];
        } catch (const Error& error) {
          EXPECT_EQ(error.message(), "it has changed");
        }
        all.arrive_and_wait();
      }
    });
  for (auto& thread : editors) thread.join();
  for (int round = 0; round < kRounds; ++round) EXPECT_EQ(won[static_cast<size_t>(round)], 1) << round;
}

TEST_P(Together, TwoProcessesShareAFile) {
  place_->open();
  // The other process says when it has ended its first job. On a busy machine it might otherwise get none.
  int began[2];
  ASSERT_EQ(pipe(began), 0);
  const pid_t other = fork();
  if (other == 0) {
    const auto opened = place_->open();
    JobTable& table = *opened;
    for (int i = 0; i < 50; ++i) table.insert(a_job("other"), "", "", 0, 0);
    const size_t taken = work(table, "other", 1).size();
    const bool told = write(began[1], "", 1) == 1;
    work(table, "other");
    _exit(taken == 1 && told ? 0 : 1);
  }
  const auto opened = place_->open();
  JobTable& table = *opened;
  for (int i = 0; i < 50; ++i) table.insert(a_job("mine"), "", "", 0, 0);
  close(began[1]);
  char byte = 1;
  EXPECT_EQ(read(began[0], &byte, 1), 1);
  close(began[0]);
  work(table, "mine");
  int status = 0;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
  work(table, "mine");
  const Counts counts = table.counts();
  EXPECT_EQ(counts.completed, 100);
  EXPECT_EQ(counts.queued + counts.running, 0);
  check_whole(GetParam(), file());
}

// What a killed process has been told by the table: "made ID", "ended ID" …, one on each line, written when
// the function had returned.
struct Told {
  explicit Told(int pipe) : pipe(pipe) {}
  void operator()(const std::string& what, const std::string& id) const {
    const std::string line = what + " " + id + "\n";
    [[maybe_unused]] const ssize_t told = write(pipe, line.data(), line.size());
  }
  int pipe;
};

// Returns a job that says under which key it was made: there may never be two of one.
JobRow job_of_key(const std::string& key) {
  JobRow job = a_job();
  job.model = key;
  return job;
}

// Inserts, claims, gives back, ends and removes jobs until it is killed. Each insert has a key, and is tried
// again by the next process as a client would.
[[noreturn]] void live_until_killed(const Place& place, const Told& told, unsigned seed, int round) {
  const auto opened = place.open();
  JobTable& table = *opened;
  std::mt19937 random(seed);
  for (const JobRow& row : table.recover("w")) told("recovered", row.id);
  for (int i = 0;; ++i) {
    const std::string key = fmt::format("{}-{}", round, i);
    told("trying", key);
    const Inserted inserted = table.insert(job_of_key(key), key, "print", 0, 0);
    told("made", inserted.row.id);
    const auto waiting = table.waiting();
    JobRow row = table.claim(waiting[random() % waiting.size()].id, "w").value();
    table.progress(row.id, "w", 50);
    if (random() % 4 == 0) {
      table.give_back(row.id, "w", false);
      continue;
    }
    row.status = random() % 2 ? Status::completed : Status::failed;
    table.end(row, "w", Webhook{.id = "msg_" + row.id, .job = row.id, .type = "t", .body = "{}"});
    told("ended", row.id);
    if (random() % 5 == 0) {
      table.remove(row.id);
      told("removed", row.id);
    }
  }
}

struct Lives {
  std::set<std::string> made, ended, removed, maybe_removed;
  std::vector<std::string> keys;  // of all inserts that were tried
};

// Runs a process for a while, kills it, and adds what it was told.
void one_life(const Place& place, unsigned seed, int round, Lives& lives) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) live_until_killed(place, Told(ends[1]), seed, round);
  close(ends[1]);
  // A connection takes a while, so most lives begin behind it.
  char bytes[4096];
  std::string text;
  const bool waits = place.kind == Kind::postgres && round % 4 != 0;
  if (const ssize_t count = waits ? read(ends[0], bytes, sizeof bytes) : 0; count > 0)
    text.assign(bytes, static_cast<size_t>(count));
  std::thread killer([&] {
    std::mt19937 random(seed + 1);
    std::this_thread::sleep_for(std::chrono::microseconds(3'000 + random() % 200'000));
    kill(child, SIGKILL);
  });
  for (ssize_t count; (count = read(ends[0], bytes, sizeof bytes)) > 0;)
    text.append(bytes, static_cast<size_t>(count));
  killer.join();
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself";
  std::istringstream lines(text);
  std::string last_ended;
  for (std::string what, id; lines >> what >> id;) {
    if (what == "trying") lives.keys.push_back(id);
    if (what == "made") lives.made.insert(id);
    if (what == "ended") lives.ended.insert(id), last_ended = id;
    if (what == "removed") lives.removed.insert(id);
  }
  lives.maybe_removed.insert(last_ended);  // the kill may have come between the removal and its line
}

TEST_P(Together, KillsLoseAndDoubleNothing) {
  const char* wanted = std::getenv("TACHY_QUEUE_KILLS");
  const int kills = wanted ? std::atoi(wanted) : 20;
  Lives lives;
  // On a slow disk processes come less far, so more of them live until enough has ended.
  const auto too_few = [&] { return lives.ended.size() <= static_cast<size_t>(kills); };
  for (int round = 0; (round < kills || (too_few() && round < 10 * kills)) && !HasFailure(); ++round) {
    one_life(*place_, 1000u + static_cast<unsigned>(round), round, lives);
    const auto opened = place_->open();
    JobTable& table = *opened;
    std::map<std::string, int> messages;
    for (const Webhook& message : table.due_webhooks(INT64_MAX, 1'000'000)) ++messages[message.job];
    for (const std::string& id : lives.made) {
      const auto row = table.find(id);
      if (!row) {
        EXPECT_TRUE(lives.removed.contains(id) || lives.maybe_removed.contains(id)) << "lost: " << id;
        continue;
      }
      EXPECT_FALSE(lives.removed.contains(id)) << "came back: " << id;
      const bool has_ended = row->status == Status::completed || row->status == Status::failed;
      EXPECT_TRUE(has_ended || !lives.ended.contains(id)) << "its end was lost: " << id;
      EXPECT_EQ(messages[id], has_ended ? 1 : 0) << id;
    }
    // What was tried last may have come through or not; trying again makes one job of it, as for any other
    // key.
    if (lives.keys.empty()) continue;
    const Inserted again = table.insert(job_of_key(lives.keys.back()), lives.keys.back(), "print", 0, 0);
    EXPECT_NE(again.how, Inserted::How::mismatch);
    lives.made.insert(again.row.id);
    EXPECT_EQ(table.insert(a_job(), lives.keys.back(), "print", 0, 0).row.id, again.row.id);
  }
  check_whole(GetParam(), file());
  const auto opened = place_->open();
  JobTable& table = *opened;
  const Counts counts = table.counts();
  std::set<std::string> keys;
  int64_t listed = 0;
  for (Page page{.has_more = true}; page.has_more; listed += static_cast<int64_t>(page.rows.size())) {
    page = table.list(nullptr, page.rows.empty() ? "" : page.rows.back().id, 100, true);
    for (const JobRow& row : page.rows)
      EXPECT_TRUE(keys.insert(row.model).second) << "doubled: " << row.model;
  }
  EXPECT_EQ(listed, counts.queued + counts.running + counts.completed + counts.failed);
  EXPECT_FALSE(too_few()) << "the processes did not live long enough";
  RecordProperty("made", static_cast<int>(lives.made.size()));
}

}  // namespace
}  // namespace tachy::queue
