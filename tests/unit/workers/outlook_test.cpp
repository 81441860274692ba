// Tests the forecast of what a job would take, and of what would fit in its place.
#include "base/clock.h"
#include "base/error.h"
#include "shop_floor.h"
#include "workers/nearest.h"

namespace tachy {
namespace {

using namespace test;
using testing::HasSubstr;
using workers::Grid;
using workers::Shape;

class OutlookTest : public ShopFloor {};

TEST_F(OutlookTest, OfAJobThatFits) {
  open();
  const workers::Outlook small = foreman_->outlook(spec_of({}), "", 0);
  EXPECT_TRUE(small.fits);
  EXPECT_TRUE(small.prepared);
  EXPECT_EQ(small.gpu_bytes, 0);
  EXPECT_GT(small.host_bytes, 0);
  EXPECT_GT(small.seconds, small.seconds_to_preview);
  EXPECT_GT(small.seconds_to_preview, 0);
  EXPECT_EQ(small.queue_position, 0);
  const workers::Outlook more = foreman_->outlook(spec_of({.steps = 40, .frames = 33}), "", 0);
  EXPECT_GT(more.seconds, small.seconds);
}

TEST_F(OutlookTest, OfAJobThatRunsFromItsPlan) {
  open();
  const workers::Outlook outlook = foreman_->outlook(spec_of({}), "sprites", 0);
  std::shared_ptr<void> room = foreman_->make_room();
  const std::string id = add({});
  foreman_->remember(id, outlook.prepared);
  room.reset();
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_TRUE(video(id) == undisturbed({}));
}

TEST_F(OutlookTest, ThePlaceIsThatOfTheOwner) {
  open();
  std::shared_ptr<void> room = foreman_->make_room();
  for (int i = 0; i < 4; ++i) add({.owner = "alice"});
  EXPECT_EQ(foreman_->outlook(spec_of({}), "", 0, "alice", "sprites").queue_position, 4);
  EXPECT_LE(foreman_->outlook(spec_of({}), "", 0, "bob", "sprites").queue_position, 1) << "it is bob's turn";
}

TEST_F(OutlookTest, APlanOfOtherSettingsIsNotUsed) {
  open();
  const workers::Outlook outlook = foreman_->outlook(spec_of({}), "", 0);
  std::shared_ptr<void> room = foreman_->make_room();
  const std::string id = add({});
  foreman_->remember(id, outlook.prepared);
  table_->change(id, {.settings = jobs::to_json(spec_of({.seed = 8})).dump()});
  room.reset();
  EXPECT_EQ(json::parse(ended(id).facts)["seed"], 8);
}

TEST_F(OutlookTest, OffTheGridTheNearestIsNamed) {
  open();
  const workers::Outlook size = foreman_->outlook(spec_of({.width = 70, .height = 61}), "", 0);
  EXPECT_FALSE(size.fits);
  EXPECT_FALSE(size.prepared);
  const std::string named = size.nearest.at("size");
  EXPECT_THAT(size.reason, HasSubstr(named));
  int width = 0, height = 0;
  ASSERT_EQ(std::sscanf(named.c_str(), "%dx%d", &width, &height), 2);
  EXPECT_TRUE(foreman_->outlook(spec_of({.width = width, .height = height}), "", 0).fits);
  const workers::Outlook frames = foreman_->outlook(spec_of({.frames = 10}), "", 0);
  EXPECT_FALSE(frames.fits);
  EXPECT_EQ(frames.nearest.at("num_frames"), 9);
}

TEST_F(OutlookTest, WhatIsTooLargeForTheMachine) {
  open();
  for (const Small& large : {Small{.frames = 801, .width = 2048, .height = 2048},
                             Small{.frames = 33, .width = 16384, .height = 16384}}) {
    const double begin = monotonic_seconds();
    const workers::Outlook outlook = foreman_->outlook(spec_of(large), "", 0);
    EXPECT_LT(monotonic_seconds() - begin, 30) << "a plan of it would take minutes";
    EXPECT_FALSE(outlook.fits);
    ASSERT_FALSE(outlook.nearest.empty()) << outlook.reason;
    jobs::JobSpec job = spec_of({.frames = outlook.nearest["num_frames"]});
    int width = 0, height = 0;
    ASSERT_EQ(std::sscanf(outlook.nearest["size"].get<std::string>().c_str(), "%dx%d", &width, &height), 2);
    job.settings.request.width = width, job.settings.request.height = height;
    EXPECT_TRUE(foreman_->outlook(job, "", 0).fits);
  }
}

TEST_F(OutlookTest, WhatIsWrongIsAnError) {
  open();
  jobs::JobSpec job = spec_of({});
  job.settings.request.sampler = "none such";
  EXPECT_THROW(foreman_->outlook(job, "", 0), Error);
  EXPECT_THROW(foreman_->outlook(spec_of({}), "nobody", 0), Error);
}

TEST(Nearest, KeepsToTheGridAndToTheLimit) {
  const Grid grid{16, 4};
  for (const int64_t limit : {1000, 20000, 1000000, 50000000}) {
    int calls = 0;
    const auto fits = [&](const Shape& s) {
      ++calls;
      EXPECT_EQ(s.width % 16 + s.height % 16 + (s.frames - 1) % 4, 0);
      return int64_t{s.width} * s.height * s.frames <= limit;
    };
    const auto found = workers::nearest_that_fits({1280, 720, 81}, grid, fits);
    ASSERT_TRUE(found) << limit;
    EXPECT_TRUE(fits(*found));
    EXPECT_LE(calls, 30);
    EXPECT_GT(int64_t{found->width} * found->height * found->frames, limit / 8) << "not far below the limit";
  }
  EXPECT_FALSE(workers::nearest_that_fits({64, 64, 5}, grid, [](const Shape&) { return false; }));
  EXPECT_EQ(*workers::nearest_that_fits({70, 60, 6}, grid, [](const Shape&) { return true; }),
            (Shape{64, 64, 5}));
}

}  // namespace
}  // namespace tachy
