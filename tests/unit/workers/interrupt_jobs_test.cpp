// Jobs that are stopped: by whom, how fast, and what becomes of them. One that goes on has the bytes of one
// that nothing disturbed.
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
  for (const std::string stage : {"prepare", "text", "denoise", "decode"}) {
    const std::string id = add(kLong);
    ASSERT_TRUE(in_stage(id, stage)) << stage;
    const double begin = monotonic_seconds();
    wish(id, Wish::cancel);
    const JobRow done = ended(id);
    EXPECT_LT(monotonic_seconds() - begin, kSoon) << stage;
    EXPECT_EQ(done.status, Status::failed) << stage;
    EXPECT_EQ(done.error.code, "cancelled") << stage;
    EXPECT_EQ(events(id).back(), "failed");
    const queue::JobFolder folder(files_.path, id);
    EXPECT_FALSE(fs::exists(folder.video()));
    EXPECT_FALSE(fs::exists(folder.video().string() + ".resume")) << "nobody needs it";
  }
}

TEST_F(InterruptTest, ACancelledJobStopsSoonWhileItIsPlanned) {
  open();
  const std::string id = add({.frames = 401, .width = 1024, .height = 1024});
  ASSERT_TRUE(in_stage(id, "prepare"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double begin = monotonic_seconds();
  wish(id, Wish::cancel);
  EXPECT_EQ(ended(id).error.code, "cancelled");
  EXPECT_LT(monotonic_seconds() - begin, kSoon);
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

TEST_F(InterruptTest, AMoreUrgentJobGoesFirst) {
  open();
  const std::string id = add(kLong);
  ASSERT_TRUE(in_stage(id, "denoise", 5));
  const std::string urgent = add({.steps = 2, .priority = 5});
  ASSERT_TRUE(wait([&] { return row(urgent).status == Status::in_progress; }, 1)) << "within a second";
  EXPECT_EQ(row(id).status, Status::in_progress) << "there is memory for both, so it keeps what it has";
  EXPECT_TRUE(foreman_->live(row(id)).interrupted);
  EXPECT_EQ(ended(urgent).status, Status::completed);
  EXPECT_EQ(row(id).ended_ms, 0);
  EXPECT_TRUE(wait([&] { return !foreman_->live(row(id)).interrupted; }));
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_TRUE(video(id) == undisturbed(kLong));
}

TEST_F(InterruptTest, AHeldJobCanBeCancelled) {
  open();
  const std::string id = add(kLong);
  ASSERT_TRUE(in_stage(id, "denoise", 5));
  const std::string urgent = add({.steps = 20, .frames = 33, .priority = 5});
  ASSERT_TRUE(wait([&] { return foreman_->live(row(id)).interrupted; }));
  const double begin = monotonic_seconds();
  wish(id, Wish::cancel);
  EXPECT_EQ(ended(id).error.code, "cancelled");
  EXPECT_LT(monotonic_seconds() - begin, kSoon);
  EXPECT_EQ(ended(urgent).status, Status::completed);
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
  EXPECT_EQ(events(id).back(), "done");
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
  const std::string id = add(kLong);
  ASSERT_TRUE(in_stage(id, "denoise", 2));
  EXPECT_TRUE(table_->remove(id));
  foreman_->wake();
  const std::string next = add({.steps = 1});
  EXPECT_TRUE(wait([&] { return row(next).status == Status::in_progress; }, 1));
}

TEST_F(InterruptTest, AWorldGetsItsRoom) {
  open();
  const std::string id = add(kLong);
  ASSERT_TRUE(in_stage(id, "denoise", 5));
  const double begin = monotonic_seconds();
  std::shared_ptr<void> room = foreman_->make_room();
  EXPECT_LT(monotonic_seconds() - begin, 1);
  EXPECT_EQ(row(id).status, Status::queued);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(row(id).status, Status::queued) << "it waits as long as the world is there";
  room.reset();
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_TRUE(video(id) == undisturbed(kLong));
}

TEST_F(InterruptTest, TheServerGoesDownAndComesBack) {
  open();
  const std::string id = add(kLong), waits = add({.steps = 1});
  ASSERT_TRUE(in_stage(id, "denoise", 8));
  const double begin = monotonic_seconds();
  foreman_->stop();
  EXPECT_LT(monotonic_seconds() - begin, 2);
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
  const std::string id = add(kLong);
  ASSERT_TRUE(in_stage(id, "denoise", 2));
  table_->wish(id, Wish::cancel, std::nullopt);
  const double begin = monotonic_seconds();
  foreman_->stop_job(id);
  EXPECT_LT(monotonic_seconds() - begin, kSoon);
  const fs::path folder = queue::JobFolder(files_.path, id).path;
  fs::remove_all(folder);
  EXPECT_TRUE(table_->remove(id));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_EQ(ended(add({.steps = 1})).status, Status::completed) << "others go on";
}

}  // namespace
}  // namespace tachy
