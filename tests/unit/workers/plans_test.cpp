// Plans that are kept and made for others: the cache of answers to callers, and the dispatcher's planner.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/error.h"
#include "shop_floor.h"
#include "workers/plan_ahead.h"
#include "workers/plan_cache.h"

namespace tachy {
namespace {

using namespace test;
using namespace std::chrono_literals;
using workers::PlanAhead;
using workers::PlanCache;
using workers::Planned;

Planned refused(const std::string& reason) { return {.prepared = nullptr, .reason = reason}; }

TEST(PlanCacheTest, WhatDoesNotFitCountsForEveryPrompt) {
  PlanCache cache(1000);
  EXPECT_EQ(cache.get({"large", "a cat"}, [] { return refused("too large"); })->reason, "too large");
  const auto never = []() -> Planned { fail(ErrorCode::internal, "it is known"); };
  EXPECT_EQ(cache.get({"large", "a dog"}, never)->reason, "too large");
  EXPECT_EQ(cache.get({"larger", "a cat"}, [] { return refused("much too large"); })->reason,
            "much too large");
  PlanCache forgets(0);
  forgets.get({"large", "a cat"}, [] { return refused("too large"); });
  std::this_thread::sleep_for(2ms);
  EXPECT_EQ(forgets.get({"large", "a cat"}, [] { return refused("still"); })->reason, "still");
}

TEST(PlanCacheTest, EqualOnesWaitForOne) {
  PlanCache cache(1000);
  std::atomic<int> made{0}, waiting{0};
  std::vector<std::future<std::string>> all;
  for (int i = 0; i < 8; ++i)
    all.push_back(std::async(std::launch::async, [&, i] {
      ++waiting;
      return cache
          .get({"large", std::to_string(i)},
               [&] {
                 while (waiting < 8) std::this_thread::sleep_for(1ms);
                 std::this_thread::sleep_for(20ms);
                 return refused(std::to_string(++made));
               })
          ->reason;
    }));
  for (auto& one : all) EXPECT_EQ(one.get(), "1");
}

TEST(PlanCacheTest, WhoWaitsForAMistakeTriesItself) {
  PlanCache cache(1000);
  std::atomic<int> made{0}, thrown{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      try {
        cache.get({"shape", ""}, [&]() -> Planned {
          if (++made == 1) fail(ErrorCode::invalid_argument, "wrong");
          return refused("large");
        });
      } catch (const Error&) {
        ++thrown;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(made, 2);
}

TEST(PlanCacheTest, IsBounded) {
  PlanCache cache(1000);
  for (int i = 0; i < 100; ++i)
    cache.get({std::to_string(i), ""}, [&] { return refused(std::to_string(i)); });
  EXPECT_EQ(cache.get({"99", ""}, [] { return refused("again"); })->reason, "99");
  EXPECT_EQ(cache.get({"0", ""}, [] { return refused("again"); })->reason, "again");
}

class PlanAheadTest : public testing::Test {
 protected:
  static JobRow job(const std::string& id, const std::string& settings = "{}") {
    return {.id = id, .settings = settings};
  }
  std::mutex mutex_;
  std::vector<std::string> planned_;
  std::atomic<int> made_{0};
  std::atomic<bool> open_{false};
  std::vector<std::string> planned() {
    const std::lock_guard lock(mutex_);
    return planned_;
  }
  void plan(const JobRow& row, const std::atomic<bool>& cancel) {
    {
      const std::lock_guard lock(mutex_);
      planned_.push_back(row.id);
    }
    while (!open_ && !cancel) std::this_thread::sleep_for(1ms);
    if (row.id == "bad") fail(ErrorCode::invalid_argument, "wrong");
  }
  bool soon(const std::function<bool()>& what) {
    for (int i = 0; i < 10'000 && !what(); ++i) std::this_thread::sleep_for(1ms);
    return what();
  }
};

TEST_F(PlanAheadTest, NobodyWaitsAndTheLastOneCounts) {
  PlanAhead ahead([this](const JobRow& row, const std::atomic<bool>& cancel) { plan(row, cancel); },
                  [this] { ++made_; });
  ahead.want(job("one"));
  ASSERT_TRUE(soon([&] { return planned().size() == 1; }));
  ahead.want(job("one")), ahead.want(job("two")), ahead.want(job("bad"));
  EXPECT_EQ(made_, 0);
  open_ = true;
  ASSERT_TRUE(soon([&] { return made_ == 2; }));
  EXPECT_THAT(planned(), testing::ElementsAre("one", "bad"));
  EXPECT_TRUE(ahead.failed(job("bad")));
  EXPECT_FALSE(ahead.failed(job("bad", "{\"seed\": 8}"))) << "it was changed";
  EXPECT_FALSE(ahead.failed(job("one")));
}

TEST_F(PlanAheadTest, ItsEndCancelsAPlan) {
  {
    PlanAhead ahead([this](const JobRow& row, const std::atomic<bool>& cancel) { plan(row, cancel); }, [] {});
    ahead.want(job("one"));
    ASSERT_TRUE(soon([&] { return planned().size() == 1; }));
  }
  EXPECT_FALSE(open_);
}

// Jobs that an earlier process left have no plan. The second one is planned beside the first and then begins.
TEST_F(ShopFloor, AJobWithoutAPlanIsPlannedBesideTheOneThatRuns) {
  open(2);
  std::shared_ptr<void> room = foreman_->make_room();
  const std::string first = add({.steps = 1000}), second = add({.seed = 8});
  room.reset();
  ASSERT_TRUE(in_stage(first, "denoise"));
  EXPECT_EQ(ended(second).status, Status::completed);
  EXPECT_EQ(row(first).status, Status::in_progress);
}

TEST_F(ShopFloor, EqualRequestsHaveOnePlan) {
  open();
  const auto one = foreman_->outlook(spec_of({}), "", 0), same = foreman_->outlook(spec_of({}), "", 0),
             other = foreman_->outlook(spec_of({.seed = 8}), "", 0);
  EXPECT_EQ(one.prepared, same.prepared);
  EXPECT_NE(one.prepared, other.prepared);
  EXPECT_EQ(other.prepared->request().seed, 8u);
  EXPECT_FALSE(one.world_open);
  const auto room = foreman_->make_room();
  EXPECT_TRUE(foreman_->outlook(spec_of({}), "", 0).world_open);
}

}  // namespace
}  // namespace tachy
