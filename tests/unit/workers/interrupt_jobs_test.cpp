// Jobs that are stopped: by whom, how fast, and what becomes of them. One that goes on has the bytes of one
// that nothing disturbed.
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "shop_floor.h"

namespace tachy {
namespace {

using namespace test;
using queue::Wish;
using testing::Contains;

// Long enough to be met in each stage.
const Small kLong{.steps = 20, .frames = 33, .width = 80, .height = 80};
constexpr double kSoon = 0.5;

class InterruptTest : public ShopFloor {
 protected:
  void wish(const std::string& id, Wish wish) {
    table_->wish(id, wish, std::nullopt);
    foreman_->wake();
  }
};

TEST_F(InterruptTest, ACancelledJobStopsSoonInEveryStage) {
  open();
  Small wordy = kLong;  // so that its text takes longer than a look
  for (int i = 0; i < 7; ++i) wordy.prompt += ", " + wordy.prompt;
  wordy.prompt.resize(1500);
  for (const std::string stage : {"prepare", "text", "denoise", "decode"}) {
    EXPECT_TRUE(soon(kSoon, [&] {
      std::string id;
      JobRow done;
      double begin = 0, took = 60;
      // A stage may be over before it is seen, and the job before it is cancelled.
      for (int tries = 0; tries < 30 && done.status != Status::failed; ++tries) {
        id = add(wordy);
        if (!in_stage(id, stage)) continue;
        begin = monotonic_seconds();
        wish(id, Wish::cancel);
        done = ended(id), took = monotonic_seconds() - begin;
      }
      EXPECT_EQ(done.status, Status::failed) << stage;
      EXPECT_EQ(done.error.code, "cancelled") << stage;
      EXPECT_EQ(last_event(id), "failed");
      const queue::JobFolder folder(files_.path, id);
      EXPECT_FALSE(fs::exists(folder.video()));
      EXPECT_FALSE(fs::exists(folder.video().string() + ".resume")) << "nobody needs it";
      return took;
    })) << stage;
  }
}

TEST_F(InterruptTest, ACancelledJobStopsSoonWhileItIsPlanned) {
  open();
  EXPECT_TRUE(soon(kSoon, [&] {
    const std::string id = add({.frames = 401, .width = 1024, .height = 1024});
    EXPECT_TRUE(in_stage(id, "prepare"));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const double begin = monotonic_seconds();
    wish(id, Wish::cancel);
    EXPECT_EQ(ended(id).error.code, "cancelled");
    return monotonic_seconds() - begin;
  }));
}

TEST_F(InterruptTest, APausedJobGoesOnToTheSameBytes) {
  open();
  const std::string id = add(kLong);
  ASSERT_TRUE(in_stage(id, "denoise", 12));
  wish(id, Wish::pause);
  ASSERT_TRUE(wait([&] { return row(id).status == Status::queued; }));
  EXPECT_TRUE(row(id).paused);
  EXPECT_LT(foreman_->live(row(id)).position, 0);
  const std::string other = add({.steps = 1});
  EXPECT_EQ(ended(other).status, Status::completed) << "others pass it";
  EXPECT_EQ(row(id).status, Status::queued);
  table_->set_paused(id, false);
  foreman_->wake();
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_TRUE(video(id) == undisturbed(kLong));
}

// A table in which somebody lets a job go on after its worker has heard that it is to be paused, and before it gives it back.
class ContinuedTable : public queue::SqliteTable {
 public:
  using queue::SqliteTable::SqliteTable;
  bool give_back(const std::string& id, const std::string& worker, bool paused) override {
    if (!continued.exchange(true)) wish(id, Wish::none, std::nullopt);
    return queue::SqliteTable::give_back(id, worker, paused);
  }
  std::atomic<bool> continued = false;
};

class ContinuedTest : public InterruptTest {
 protected:
  std::unique_ptr<queue::SqliteTable> make_table(const fs::path& file) override {
    return std::make_unique<ContinuedTable>(file);
  }
};

TEST_F(ContinuedTest, AJobThatIsLetGoOnWhileItStopsIsNotPaused) {
  open();
  const std::string id = add(kLong);
  ASSERT_TRUE(in_stage(id, "denoise", 5));
  wish(id, Wish::pause);
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_EQ(row(id).attempts, 2);
  EXPECT_TRUE(video(id) == undisturbed(kLong));
}

TEST_F(InterruptTest, AMoreUrgentJobGoesFirst) {
  open();
  EXPECT_TRUE(soon(1, [&] {
    const std::string id = add(kLong);
    EXPECT_TRUE(in_stage(id, "denoise", 5));
    const double asked = monotonic_seconds();
    double took = 60;
    const std::string urgent = add({.steps = 2, .priority = 5});
    bool interrupted = false;  // looked at until the urgent job ends, which may be soon after it has begun
    EXPECT_TRUE(wait([&] {
      const JobRow now = row(urgent);
      if (now.status != Status::queued) took = std::min(took, monotonic_seconds() - asked);
      interrupted = interrupted || foreman_->live(row(id)).interrupted;
      EXPECT_EQ(row(id).status, Status::in_progress) << "there is memory for both, so it keeps what it has";
      return now.ended_ms > 0 || HasFailure();
    }));
    EXPECT_TRUE(interrupted);
    EXPECT_EQ(ended(urgent).status, Status::completed);
    EXPECT_EQ(row(id).ended_ms, 0);
    EXPECT_TRUE(wait([&] { return !foreman_->live(row(id)).interrupted; }));
    EXPECT_EQ(ended(id).status, Status::completed);
    EXPECT_TRUE(video(id) == undisturbed(kLong));
    return took;
  }));
}

// Limits the addresses of this process, and with them the memory that runs count on.
class AddressLimit {
 public:
  explicit AddressLimit(uint64_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

// A new thread takes 8 MB of addresses for its stack and, with the first byte that it allocates, 64 MB or more for a
// heap of its own. Those of a job's threads would decide what fits, so their stacks are small and they share one heap.
void take_few_addresses_per_thread() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 1u << 20);
  EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(mallopt(M_ARENA_MAX, 1), 1);
}

uint64_t addresses() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

TEST_F(InterruptTest, WhereBothDoNotFitTheOtherStopsAndGoesOnLater) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve more addresses than any limit allows";
#endif
  take_few_addresses_per_thread();
  std::vector<std::string> causes;
  std::mutex mutex;
  options_.measured = [&](const json& event) {
    const std::lock_guard lock(mutex);
    if (event["event"] == "interrupted") causes.push_back(event["cause"]);
  };
  const Small wide{.steps = 6, .frames = 9, .width = 256, .height = 256};
  const std::string whole = undisturbed(wide);
  open();
  ended(add({.steps = 1, .frames = 9, .width = 256, .height = 256}));  // which loads the model
  const uint64_t own = foreman_->outlook(spec_of(wide), "", 0).host_bytes;
  ASSERT_GT(own, 60u << 20) << "threads and libraries must not decide";
  const AddressLimit limit(addresses() + (192u << 20) + own);
  const std::string id = add(wide);
  ASSERT_TRUE(in_stage(id, "denoise", 2)) << row(id).error.message;
  const std::string urgent = add({.steps = 1, .frames = 9, .width = 256, .height = 256, .priority = 5});
  // The urgent one may begin while the state of the other is still being written.
  bool makes_way = false;
  EXPECT_TRUE(wait([&] {
    makes_way = row(id).status == Status::queued;
    return makes_way || row(urgent).ended_ms > 0;
  }));
  EXPECT_TRUE(makes_way) << "there is no memory for both";
  EXPECT_EQ(ended(urgent).status, Status::completed) << row(urgent).error.message;
  EXPECT_EQ(ended(id).status, Status::completed) << row(id).error.message;
  EXPECT_EQ(row(id).attempts, 2);
  EXPECT_TRUE(video(id) == whole);
  const std::lock_guard lock(mutex);
  EXPECT_EQ(causes, std::vector<std::string>{"priority"});
}

TEST_F(InterruptTest, AHeldJobCanBeCancelled) {
  open();
  EXPECT_TRUE(soon(kSoon, [&] {
    const std::string id = add(kLong);
    EXPECT_TRUE(in_stage(id, "denoise", 5));
    const std::string urgent = add({.steps = 20, .frames = 33, .priority = 5});
    EXPECT_TRUE(wait([&] { return foreman_->live(row(id)).interrupted; }));
    const double begin = monotonic_seconds();
    wish(id, Wish::cancel);
    EXPECT_EQ(ended(id).error.code, "cancelled");
    const double took = monotonic_seconds() - begin;
    EXPECT_EQ(ended(urgent).status, Status::completed);
    return took;
  }));
}

TEST_F(InterruptTest, FramesThatAreThereAreKept) {
  open();
  const std::string id = add(kLong);
  ASSERT_TRUE(in_stage(id, "decode", 9));
  wish(id, Wish::cancel_keeping_frames);
  const JobRow done = ended(id);
  ASSERT_EQ(done.status, Status::completed) << done.error.message;
  const json facts = json::parse(done.facts);
  EXPECT_GE(facts["frames"], 9);
  EXPECT_LE(facts["frames"], 33);
  EXPECT_EQ(facts["seconds"],
            fmt::format("{:.2f}", facts["frames"].get<double>() / facts["fps"].get<double>()));
  EXPECT_EQ(last_event(id), "done");
}

TEST_F(InterruptTest, WithoutFramesNothingIsKept) {
  open();
  const std::string id = add(kLong);
  ASSERT_TRUE(in_stage(id, "denoise", 2));
  wish(id, Wish::cancel_keeping_frames);
  EXPECT_EQ(ended(id).error.code, "cancelled");
}

TEST_F(InterruptTest, TwoRunBesideEachOther) {
  open(2);
  const std::string first = add(kLong), second = add(kLong), third = add({.steps = 1});
  EXPECT_TRUE(wait(
      [&] { return row(first).status == Status::in_progress && row(second).status == Status::in_progress; }));
  EXPECT_EQ(row(third).status, Status::queued);
  EXPECT_EQ(ended(first).status, Status::completed);
  EXPECT_EQ(ended(second).status, Status::completed);
  EXPECT_TRUE(video(first) == undisturbed(kLong));
  EXPECT_TRUE(video(second) == undisturbed(kLong));
  EXPECT_EQ(ended(third).status, Status::completed);
}

TEST_F(InterruptTest, ARowThatVanishesStopsItsJob) {
  open();
  EXPECT_TRUE(soon(1, [&] {
    const std::string id = add(kLong);
    EXPECT_TRUE(in_stage(id, "denoise", 2));
    const double begin = monotonic_seconds();
    EXPECT_TRUE(table_->remove(id));
    foreman_->wake();
    const std::string next = add({.steps = 1});
    EXPECT_TRUE(wait([&] { return row(next).status != Status::queued; }));
    const double took = monotonic_seconds() - begin;
    EXPECT_EQ(ended(next).status, Status::completed);
    return took;
  }));
}

TEST_F(InterruptTest, AWorldGetsItsRoom) {
  open();
  EXPECT_TRUE(soon(1, [&] {
    const std::string id = add(kLong);
    EXPECT_TRUE(in_stage(id, "denoise", 5));
    const double begin = monotonic_seconds();
    std::shared_ptr<void> room = foreman_->make_room();
    const double took = monotonic_seconds() - begin;
    EXPECT_EQ(row(id).status, Status::queued);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(row(id).status, Status::queued) << "it waits as long as the world is there";
    room.reset();
    EXPECT_EQ(ended(id).status, Status::completed);
    EXPECT_TRUE(video(id) == undisturbed(kLong));
    return took;
  }));
}

TEST_F(InterruptTest, TheServerGoesDownAndComesBack) {
  open();
  const std::string id = add(kLong), waits = add({.steps = 1});
  ASSERT_TRUE(in_stage(id, "denoise", 8));
  const double begin = monotonic_seconds();
  foreman_->stop();
  EXPECT_LT(monotonic_seconds() - begin, 5);
  EXPECT_EQ(row(id).status, Status::queued);
  EXPECT_FALSE(foreman_->ready());
  close();
  open();
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_EQ(ended(waits).status, Status::completed);
  EXPECT_TRUE(video(id) == undisturbed(kLong));
}

TEST_F(InterruptTest, AJobThatIsDeletedWritesNothingMore) {
  open();
  EXPECT_TRUE(soon(kSoon, [&] {
    const std::string id = add(kLong);
    EXPECT_TRUE(in_stage(id, "denoise", 2));
    table_->wish(id, Wish::cancel, std::nullopt);
    const double begin = monotonic_seconds();
    foreman_->stop_job(id);
    const double took = monotonic_seconds() - begin;
    const fs::path folder = queue::JobFolder(files_.path, id).path;
    fs::remove_all(folder);
    EXPECT_TRUE(table_->remove(id));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_FALSE(fs::exists(folder));
    return took;
  }));
  EXPECT_EQ(ended(add({.steps = 1})).status, Status::completed) << "others go on";
}

}  // namespace
}  // namespace tachy
