// A table that cannot be written for a while, as on a full disk: no job is lost.
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
  EXPECT_EQ(events(id).back(), "done");
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
  EXPECT_LT(monotonic_seconds() - begin, 3) << "the server goes down all the same";
  EXPECT_EQ(steps, 4);

  refusals_ = 0;
  open();
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_EQ(steps, 4) << "it was complete";
  EXPECT_TRUE(video(id) == made);
  EXPECT_EQ(json::parse(row(id).facts)["bytes"], made.size());
}

}  // namespace
}  // namespace tachy
