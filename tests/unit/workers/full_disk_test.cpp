// A disk that is full for a while, so that neither the table nor a video can be written: no job is lost.
#include <system_error>

#include "base/clock.h"
#include "base/error.h"
#include "shop_floor.h"

namespace tachy {
namespace {

using namespace test;

// A table that refuses the ends of jobs as long as it is told to.
class FullTable : public queue::SqliteTable {
 public:
  FullTable(const fs::path& file, std::atomic<int>& refusals)
      : queue::SqliteTable(file), refusals_(refusals) {}
  bool end(const JobRow& ended, const std::string& worker,
           const std::optional<queue::Webhook>& message) override {
    if (refusals_ > 0) {
      --refusals_;
      fail(ErrorCode::io, "tachyscope.db: the disk is full");
    }
    return queue::SqliteTable::end(ended, worker, message);
  }

 private:
  std::atomic<int>& refusals_;
};

class FullDiskTest : public ShopFloor {
 protected:
  std::unique_ptr<queue::SqliteTable> make_table(const fs::path& file) override {
    return std::make_unique<FullTable>(file, refusals_);
  }
  std::atomic<int> refusals_ = 0;
};

TEST_F(FullDiskTest, TheEndIsTriedAgain) {
  refusals_ = 2;
  open();
  const std::string id = add({.steps = 1});
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_EQ(refusals_, 0);
  EXPECT_EQ(last_event(id), "done");
}

TEST_F(FullDiskTest, AVideoThatIsThereIsNotMadeAgain) {
  refusals_ = 1000000;
  std::atomic<int> steps = 0;
  options_.measured = [&](const json& event) { steps += event.value("stage", "") == "denoise"; };
  open();
  const std::string id = add({});
  EXPECT_TRUE(wait([&] { return refusals_ < 1000000; }));
  EXPECT_EQ(row(id).status, Status::in_progress) << "the table knows nothing of its end";
  const std::string made = video(id);
  EXPECT_FALSE(made.empty());
  const double begin = monotonic_seconds();
  close();
  EXPECT_LT(monotonic_seconds() - begin, 10) << "the server goes down all the same";
  EXPECT_EQ(steps, 4);

  refusals_ = 0;
  open();
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_EQ(steps, 4) << "it was complete";
  EXPECT_TRUE(video(id) == made);
  EXPECT_EQ(json::parse(row(id).facts)["bytes"], made.size());
}

// Videos that cannot be written, because the disk is said to be full as long as a test wants it.
class NoRoomTest : public ShopFloor {
 protected:
  NoRoomTest() {
    options_.has_room = [this] { return room_.load(); };
    options_.measured = [this](const json& event) {
      steps_ += event.value("stage", "") == "denoise";
      disk_ += event.value("event", "") == "interrupted" && event.value("cause", "") == "disk";
    };
  }
  // The first job that is complete then meets a full disk.
  void meet_full_disk(bool afterwards_full) {
    options_.store = [this, afterwards_full](const JobRow&, const queue::JobFolder&) {
      if (met_.exchange(true)) return;
      room_ = !afterwards_full;
      fail(ErrorCode::io, "video.mp4: cannot write: {}",
           std::make_error_code(std::errc::no_space_on_device).message());
    };
  }

  std::atomic<bool> room_ = true, met_ = false;
  std::atomic<int> steps_ = 0, disk_ = 0;
};

TEST_F(NoRoomTest, NoJobBegins) {
  room_ = false;
  open();
  const std::string id = add({});
  EXPECT_TRUE(wait([&] { return foreman_->live(row(id)).why.find("full") != std::string::npos; }, 10))
      << foreman_->live(row(id)).why;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(row(id).attempts, 0);
  EXPECT_EQ(row(id).status, Status::queued);
  room_ = true;
  foreman_->wake();
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_EQ(video(id), undisturbed({}));
}

TEST_F(NoRoomTest, AJobUnderWayWaits) {
  meet_full_disk(true);
  open();
  const std::string id = add({}), next = add({.seed = 8});
  EXPECT_TRUE(wait([&] { return disk_ == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(row(id).status, Status::queued);
  EXPECT_EQ(row(id).attempts, 1);
  room_ = true;
  foreman_->wake();
  for (const std::string& one : {id, next}) EXPECT_EQ(ended(one).status, Status::completed);
  EXPECT_EQ(row(id).attempts, 2);
  EXPECT_EQ(video(id), undisturbed({}));
  EXPECT_EQ(steps_, 2 * Small().steps) << "nothing was computed again";
}

TEST_F(NoRoomTest, AJobThatIsTooLargeForTheDiskFails) {
  meet_full_disk(false);
  open();
  const std::string id = add({}), next = add({.seed = 8});
  EXPECT_EQ(ended(id).status, Status::failed);
  EXPECT_EQ(row(id).error.code, "disk_full");
  EXPECT_EQ(row(id).attempts, 1);
  EXPECT_EQ(ended(next).status, Status::completed) << "the others go on";
}

}  // namespace
}  // namespace tachy
