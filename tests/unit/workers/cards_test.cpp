// Jobs on several cards of one server. The processor stands for two cards here, each with an engine of its own.
#include "shop_floor.h"

namespace tachy::test {
namespace {

const Small kLong{.steps = 12, .frames = 33, .seed = 3}, kUrgent{.steps = 2, .priority = 1, .seed = 4};

class CardsTest : public ShopFloor {
 protected:
  bool runs(const std::string& id) { return row(id).status == Status::in_progress; }
};

TEST_F(CardsTest, EachMakesAVideo) {
  open(1, 2);
  const std::string first = add(kLong), second = add(kLong), third = add({.steps = 1});
  workers::HostAbout about;
  EXPECT_TRUE(wait([&] {
    foreman_->describe(about);
    return about.running == 2 && runs(first) && runs(second) && row(third).status == Status::queued;
  })) << "each card has a job";
  EXPECT_EQ(about.at_once, 2);
  EXPECT_EQ(ended(first).status, Status::completed);
  EXPECT_EQ(ended(second).status, Status::completed);
  EXPECT_EQ(ended(third).status, Status::completed);
  EXPECT_TRUE(video(first) == undisturbed(kLong));
  EXPECT_TRUE(video(second) == undisturbed(kLong)) << "the second card's video differs";
  EXPECT_NE(models_->opened("sprites", 0), models_->opened("sprites", 1));
}

TEST_F(CardsTest, AnUrgentJobTakesAFreeCardAndDisturbsNobody) {
  open(1, 2);
  const std::string first = add(kLong);
  ASSERT_TRUE(in_stage(first, "denoise", 1));
  const std::string urgent = add(kUrgent);
  EXPECT_TRUE(wait([&] { return runs(urgent); }));
  EXPECT_FALSE(foreman_->live(row(first)).interrupted);
  EXPECT_EQ(ended(urgent).status, Status::completed);
  EXPECT_EQ(ended(first).status, Status::completed);
  EXPECT_EQ(row(first).attempts, 1);
  EXPECT_TRUE(video(first) == undisturbed(kLong));
}

TEST_F(CardsTest, WhereAllAreTakenOneMakesWay) {
  open(1, 2);
  const std::string first = add(kLong), second = add(kLong);
  ASSERT_TRUE(in_stage(first, "denoise", 1) && in_stage(second, "denoise", 1));
  const std::string urgent = add(kUrgent);
  bool one = false,
       other = false;  // looked at until the urgent job ends, which may be soon after it has begun
  EXPECT_TRUE(wait([&] {
    one = one || foreman_->live(row(first)).interrupted;
    other = other || foreman_->live(row(second)).interrupted;
    return row(urgent).ended_ms > 0;
  }));
  EXPECT_NE(one, other) << "one job is enough";
  EXPECT_EQ(ended(urgent).status, Status::completed);
  EXPECT_EQ(ended(first).status, Status::completed);
  EXPECT_EQ(ended(second).status, Status::completed);
  EXPECT_TRUE(video(first) == undisturbed(kLong) && video(second) == undisturbed(kLong));
}

TEST_F(CardsTest, AWorldTakesTheFirstAlone) {
  open(1, 2);
  const std::string first = add(kLong), second = add(kLong), third = add({.steps = 1});
  ASSERT_TRUE(in_stage(first, "denoise", 1) && in_stage(second, "denoise", 1));
  std::shared_ptr<void> room = foreman_->make_room();
  EXPECT_TRUE(wait([&] { return runs(first) != runs(second); }, 1)) << "one goes on, the other one waits";
  EXPECT_EQ(ended(first).status, Status::completed) << "beside the world, on the second card";
  EXPECT_EQ(ended(second).status, Status::completed);
  EXPECT_EQ(ended(third).status, Status::completed);
  room.reset();
  EXPECT_TRUE(video(first) == undisturbed(kLong) && video(second) == undisturbed(kLong));
}

}  // namespace
}  // namespace tachy::test
