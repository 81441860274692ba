// Tests the order of the jobs that wait: each rule by examples, and all of them on random queues that are run
// down.
#include "queue/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "queue/postgres_pace.h"
#include "queue/slack_tree.h"

namespace tachy::queue {
namespace {

using testing::ElementsAre;

WaitingJob waiting(const std::string& id, const std::string& owner, double place, double seconds,
                   const std::string& needs = "A", int priority = 0) {
  return {.id = id,
          .owner = owner,
          .needs = needs,
          .priority = priority,
          .place = place,
          .planned_seconds = seconds};
}
std::vector<std::string> names(const std::vector<WaitingJob>& jobs, const Situation& situation = {}) {
  std::vector<std::string> names;
  for (const Turn& turn : turns(jobs, situation)) names.push_back(jobs[turn.job].id);
  return names;
}

TEST(Order, OfOneOwnerIsByPriorityAndPlace) {
  std::vector<WaitingJob> jobs = {waiting("c", "", 3, 10), waiting("a", "", 1, 10), waiting("b", "", 2, 10),
                                  waiting("high", "", 9, 10, "A", 1), waiting("low", "", 0, 10, "A", -1)};
  EXPECT_THAT(names(jobs), ElementsAre("high", "a", "b", "c", "low"));
  jobs[2].paused = true;
  EXPECT_THAT(names(jobs), ElementsAre("high", "a", "c", "low"));
  jobs[0].attempts = 1;  // it goes on first, but not before a higher priority
  EXPECT_THAT(names(jobs), ElementsAre("high", "c", "a", "low"));
  EXPECT_TRUE(turns({}, {}).empty());
}

TEST(Order, AJobThatWaitsForOthersStartsAtTheirEnd) {
  std::vector<WaitingJob> jobs = {waiting("a", "", 1, 10), waiting("b", "", 2, 20), waiting("c", "", 3, 5)};
  jobs[1].awaits = "a", jobs[2].awaits = "a b";
  const Situation two{.busy = {0, 0}};
  std::vector<double> starts;
  for (const Turn& turn : turns(jobs, two)) starts.push_back(turn.start_seconds);
  EXPECT_THAT(starts, ElementsAre(0, 10, 30));
  jobs[0].paused = true;
  EXPECT_TRUE(turns(jobs, two).empty()) << "nobody knows when they begin";
  jobs[0].paused = false, jobs[1].paused = true;
  EXPECT_THAT(names(jobs), ElementsAre("a"));
}

// Returns when each job starts, in the order of `jobs`.
std::vector<double> starts_of(const std::vector<WaitingJob>& jobs, const Situation& situation) {
  std::vector<double> starts(jobs.size());
  for (const Turn& turn : turns(jobs, situation)) starts[turn.job] = turn.start_seconds;
  return starts;
}

TEST(Order, AJobThatWaitsForOneThatRunsStartsAtItsEndAndTakesNoPlaceBefore) {
  std::vector<WaitingJob> jobs = {waiting("b", "", 1, 10), waiting("c", "", 2, 20), waiting("d", "", 3, 50)};
  jobs[0].awaits = "r";
  EXPECT_THAT(starts_of(jobs, {.busy = {60, 0}, .ends = {{"r", 60}}}), ElementsAre(60, 0, 20));
  EXPECT_THAT(starts_of(jobs, {.busy = {60}, .ends = {{"r", 60}}}), ElementsAre(60, 70, 90));
  EXPECT_THAT(starts_of(jobs, {.busy = {5}}), ElementsAre(5, 15, 35)) << "what has ended holds nobody up";
  const double never = std::numeric_limits<double>::infinity();
  EXPECT_THAT(starts_of(jobs, {.busy = {5, 0}, .ends = {{"r", never}}}), ElementsAre(never, 0, 5));
}

TEST(Order, AJobMayWaitForOneWhoseTurnIsLater) {
  std::vector<WaitingJob> jobs = {waiting("join", "", 1, 5, "A", 1), waiting("a", "", 2, 10),
                                  waiting("b", "", 3, 20), waiting("c", "", 4, 30)};
  jobs[0].awaits = "a b";
  EXPECT_THAT(names(jobs), ElementsAre("join", "a", "b", "c")) << "its place in the queue is its own";
  EXPECT_THAT(starts_of(jobs, {}), ElementsAre(30, 0, 10, 35));
  EXPECT_THAT(starts_of(jobs, {.busy = {0, 0}}), ElementsAre(20, 0, 0, 10));
  jobs[1].awaits = "join";  // nobody can ask for that, and it must not hang
  EXPECT_THAT(starts_of(jobs, {}), testing::SizeIs(4));
}

TEST(Order, BetweenOwnersIsByPlannedSeconds) {
  const std::vector<WaitingJob> jobs = {waiting("long1", "x", 1, 100), waiting("long2", "x", 2, 100),
                                        waiting("s1", "y", 3, 40),     waiting("s2", "y", 4, 40),
                                        waiting("s3", "y", 5, 40),     waiting("s4", "y", 6, 40)};
  EXPECT_THAT(names(jobs), ElementsAre("long1", "s1", "s2", "s3", "long2", "s4"));
  EXPECT_THAT(names(jobs, {.used = {{"x", 50}}}), ElementsAre("s1", "s2", "long1", "s3", "s4", "long2"));
}

TEST(Order, GroupsWhatIsInMemoryWithinTheBound) {
  const std::vector<WaitingJob> jobs = {waiting("b1", "", 1, 10, "B"), waiting("a1", "", 2, 30, "A"),
                                        waiting("b2", "", 3, 10, "B"), waiting("a2", "", 4, 30, "A"),
                                        waiting("a3", "", 5, 30, "A")};
  EXPECT_THAT(names(jobs), ElementsAre("b1", "b2", "a1", "a2", "a3"));
  // b1 may be passed over by 60 + 10 seconds: by two of the jobs of A.
  const Situation loaded{.loaded = {"A"}};
  EXPECT_THAT(names(jobs, loaded), ElementsAre("a1", "a2", "b1", "b2", "a3"));
  EXPECT_THAT(names(jobs, {.loaded = {"A"}, .passed_over = {{"b1", 30}}}),
              ElementsAre("a1", "b1", "b2", "a2", "a3"));
  EXPECT_THAT(names(jobs, {.loaded = {"A", "B"}}), ElementsAre("b1", "a1", "b2", "a2", "a3"));
  std::vector<bool> may(jobs.size());
  for (const Turn& turn : turns(jobs, {.loaded = {"A"}, .passed_over = {{"b1", 45}}}))
    may[turn.job] = turn.may_begin;
  EXPECT_THAT(may, ElementsAre(true, false, true, false, false));
  EXPECT_THAT(passed_by(jobs, loaded, 3), ElementsAre(0, 1, 2));
}

TEST(Order, ForecastsWhenAJobBegins) {
  const std::vector<WaitingJob> jobs = {waiting("a", "", 1, 10), waiting("b", "", 2, 20),
                                        waiting("c", "", 3, 30)};
  const auto starts = [&](const Situation& situation) {
    std::vector<double> starts;
    for (const Turn& turn : turns(jobs, situation)) starts.push_back(turn.start_seconds);
    return starts;
  };
  EXPECT_THAT(starts({}), ElementsAre(0, 10, 30));
  EXPECT_THAT(starts({.busy = {5}, .pace = 2}), ElementsAre(5, 25, 65));
  EXPECT_THAT(starts({.busy = {5, 0}}), ElementsAre(0, 5, 10));
}

TEST(Order, ForgetsWhatWasUsedByHalves) {
  EXPECT_DOUBLE_EQ(still_counted(80, 1000, 1000), 80);
  EXPECT_DOUBLE_EQ(still_counted(80, 0, 1'800'000), 40);
  EXPECT_DOUBLE_EQ(still_counted(80, 0, 5'400'000), 10);
  EXPECT_DOUBLE_EQ(still_counted(80, 5000, 0), 80);  // a clock that was set back
}

TEST(SlackTree, IsARowOfNumbers) {
  std::mt19937 random(7);
  for (const size_t size : {1, 2, 5, 64, 100}) {
    std::vector<double> row(size);
    for (double& value : row) value = static_cast<double>(random() % 100);
    SlackTree tree(row);
    for (int i = 0; i < 300; ++i) {
      const size_t at = random() % (size + 1);
      const double by = static_cast<double>(random() % 10);
      if (i % 3 == 0) {
        tree.lower_before(at, by);
        for (size_t k = 0; k < at; ++k) row[k] -= by;
      } else if (i % 17 == 0 && at < size) {
        tree.remove(at);
        row[at] = std::numeric_limits<double>::infinity();
      }
      double least = std::numeric_limits<double>::infinity();
      const size_t end = random() % (size + 1);
      for (size_t k = 0; k < end; ++k) least = std::min(least, row[k]);
      ASSERT_EQ(tree.least_before(end), least) << size << " " << i;
    }
  }
}

// A server that takes the next job again and again while others come, and keeps the account of who is passed
// over.
struct Server {
  explicit Server(unsigned seed) : random(seed) {}
  void arrive() {
    const int number = ++arrived;
    jobs.push_back(waiting("job" + std::to_string(number), "owner" + std::to_string(random() % 3), number,
                           1 + static_cast<double>(random() % 200),
                           std::string(1, static_cast<char>('A' + random() % 3)),
                           static_cast<int>(random() % 4) / 3));
  }
  // Takes the next job out of the queue.
  WaitingJob take() {
    const std::vector<Turn> order = turns(jobs, now);
    EXPECT_EQ(order.size(), jobs.size());
    const size_t next = order.at(0).job;
    EXPECT_TRUE(order[0].may_begin);
    const WaitingJob job = jobs[next];
    for (const size_t other : passed_by(jobs, now, next)) {
      EXPECT_EQ(jobs[other].priority, job.priority);
      EXPECT_NE(jobs[other].needs, job.needs);  // nobody with the same needs is passed over
      now.passed_over[jobs[other].id] += job.planned_seconds;
      most_passed = std::max(most_passed, now.passed_over[jobs[other].id]);
      EXPECT_LE(now.passed_over[jobs[other].id], kPatienceSeconds + jobs[other].planned_seconds + 1e-6);
    }
    for (const WaitingJob& other : jobs) EXPECT_LE(other.priority, job.priority);
    now.used[job.owner] += job.planned_seconds;
    loads += now.loaded.empty() || now.loaded[0] != job.needs;
    now.loaded = {job.needs};
    jobs.erase(jobs.begin() + static_cast<ptrdiff_t>(next));
    return job;
  }

  std::mt19937 random;
  std::vector<WaitingJob> jobs;
  Situation now;
  int arrived = 0, loads = 0;
  double most_passed = 0;
};

TEST(RandomQueues, KeepTheRules) {
  double most_passed = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    Server server(seed);
    for (int i = 0; i < 25; ++i) server.arrive();
    for (int i = 0; i < 80; ++i) {
      server.take();
      if (server.random() % 2 || server.jobs.size() < 5) server.arrive();
    }
    most_passed = std::max(most_passed, server.most_passed);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(most_passed, kPatienceSeconds) << "the bound was never near";
}

// Three owners who always have jobs waiting: many short ones, long ones of one model, and any.
TEST(RandomQueues, AreFairAndGroupedAtOnce) {
  Server server(3);
  std::map<std::string, double> seconds;
  std::map<std::string, int> waiting;
  for (int i = 0; i < 600; ++i) {
    for (const std::string owner : {"short", "one model", "any"})
      for (; waiting[owner] < 20; ++waiting[owner]) {
        server.arrive();
        WaitingJob& job = server.jobs.back();
        job.owner = owner, job.priority = 0;
        if (owner == "short") job.planned_seconds = std::min(job.planned_seconds, 20.0);
        if (owner == "one model") job.needs = "A";
      }
    const WaitingJob job = server.take();
    seconds[job.owner] += job.planned_seconds;
    --waiting[job.owner];
  }
  const auto [least, most] = std::minmax({seconds["short"], seconds["one model"], seconds["any"]});
  EXPECT_GT(least, 3000);
  EXPECT_LT(most - least, 700) << "of " << least;
  EXPECT_LT(server.loads, 240) << "of 600, where one after the other would be about 300";
}

TEST(RandomQueues, HaveOneOrderHoweverTheyAreGiven) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Server server(seed);
    for (int i = 0; i < 50; ++i) server.arrive();
    const Situation situation{.loaded = {"B"}, .used = {{"owner1", 300}}, .passed_over = {{"job1", 40}}};
    const auto order = names(server.jobs, situation);
    EXPECT_EQ(names(server.jobs, situation), order);
    std::shuffle(server.jobs.begin(), server.jobs.end(), server.random);
    EXPECT_EQ(names(server.jobs, situation), order);
  }
}

// A thousand hosts that all looked every two seconds, and at every new job, would be more than a database
// bears.
TEST(Pace, KeepsAllHostsTogetherWithinAShareOfTheDatabase) {
  EXPECT_EQ(look_interval_ms(1, 0), 2000);
  EXPECT_EQ(look_interval_ms(3, 100'000), 2256);
  for (const int64_t hosts : {1, 10, 100, 1000})
    for (const int64_t waiting : {0, 100, 1000}) {
      const double looks =
          1000.0 * static_cast<double>(hosts) / static_cast<double>(look_interval_ms(hosts, waiting));
      EXPECT_LE(looks * (0.4 + 0.0015 * static_cast<double>(waiting)), 201) << hosts << ", " << waiting;
    }
  EXPECT_EQ(look_interval_ms(100'000, 100'000), 30'000);
  EXPECT_TRUE(looks_at_once(8, 0.999));
  EXPECT_TRUE(looks_at_once(1000, 0.0079));
  EXPECT_FALSE(looks_at_once(1000, 0.0081));
}

}  // namespace
}  // namespace tachy::queue
