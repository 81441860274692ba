// Jobs in a table of several hosts: what a worker writes while nobody knows whether it still has them, and what is there
// when others hear that it has them.
#include <atomic>

#include "base/error.h"
#include "base/output_lock.h"
#include "shop_floor.h"

namespace tachy {
namespace {

using namespace test;
using std::chrono::milliseconds;

struct Leases {
  std::atomic<bool> away = false, lost = false;
};

// A table with leases, which cannot be reached or says that they are lost as long as it is told to.
class LeasedTable : public queue::SqliteTable {
 public:
  LeasedTable(const fs::path& file, Leases& leases) : queue::SqliteTable(file), leases_(leases) {}
  double lease_seconds() const override { return 0.9; }
  void enlist(const std::string&) override { leases_.lost = false; }
  std::optional<std::vector<queue::HeldJob>> heartbeat(const std::string& worker) override {
    check(!leases_.away, ErrorCode::io, "the database is away");
    if (leases_.lost) return std::nullopt;
    return queue::SqliteTable::heartbeat(worker);
  }

 private:
  Leases& leases_;
};

class LeasedTest : public ShopFloor {
 protected:
  std::unique_ptr<queue::SqliteTable> make_table(const fs::path& file) override {
    return std::make_unique<LeasedTable>(file, leases_);
  }
  // Begins a job, lets the table go away while it computes, and keeps it from its end until the lease has ended by this
  // worker's clock, however quick the machine is.
  std::string computed_while_away() {
    options_.measured = [this](const json& event) {
      const std::string stage = event.value("stage", "");
      if (stage == "denoise") wait([&] { return leases_.away || over_.load(); });
      if (stage == "decode") wait([&] { return over_.load(); });
      decoded_ = decoded_ || stage == "decode";
    };
    open();
    const std::string id = add(small_);
    EXPECT_TRUE(wait([&] { return row(id).status == Status::in_progress; }));
    leases_.away = true;
    std::this_thread::sleep_for(milliseconds(1500));
    over_ = true;
    EXPECT_TRUE(wait([&] { return decoded_.load(); }));
    std::this_thread::sleep_for(milliseconds(300));  // it has all its frames, and would end now
    EXPECT_EQ(row(id).status, Status::in_progress);
    EXPECT_FALSE(fs::exists(queue::JobFolder(files_.path, id).video())) << "somebody else may have the job";
    return id;
  }

  const Small small_{.steps = 20};
  std::atomic<bool> decoded_ = false, over_ = false;
  Leases leases_;
};

TEST_F(LeasedTest, AFileWaitsForItsNameUntilTheLeaseIsSure) {
  const std::string id = computed_while_away();
  leases_.away = false;
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_EQ(row(id).attempts, 1);
  EXPECT_EQ(video(id), undisturbed(small_));
}

TEST_F(LeasedTest, AFileGetsNoNameWhenTheLeaseIsLost) {
  const std::string id = computed_while_away();
  leases_.lost = true, leases_.away = false;
  EXPECT_TRUE(wait([&] { return row(id).attempts == 2 || row(id).ended_ms > 0; }));
  EXPECT_EQ(row(id).attempts, 2) << "it was begun anew under another lease";
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_EQ(video(id), undisturbed(small_));
}

// While a finished video gets its row the next job begins, so this worker has two rows in progress. When it loses its
// lease then, neither may be ended by what it made under the old one.
TEST_F(LeasedTest, TwoRowsInProgressAreBothBegunAnewWhenTheLeaseIsLost) {
  std::atomic<int> stored = 0;
  std::atomic<bool> go_on = false;
  options_.store = [&](const JobRow&, const queue::JobFolder&) {
    if (stored++ == 0)
      while (!go_on) std::this_thread::sleep_for(milliseconds(5));
  };
  options_.measured = [&](const json& event) {  // the next one does not end before the lease is lost
    if (stored > 0 && event.value("stage", "") == "denoise") wait([&] { return leases_.lost || go_on; });
  };
  open();
  const std::string finished = add({}), next = add(small_);
  EXPECT_TRUE(in_stage(next, "denoise"));
  EXPECT_EQ(row(finished).status, Status::in_progress);
  leases_.lost = true;
  table_->recover(options_.worker);  // as another host does that finds the lease ended
  std::this_thread::sleep_for(milliseconds(1200));
  EXPECT_EQ(row(finished).status, Status::queued)
      << "its thread has not ended yet, so nobody here begins it again";
  go_on = true;
  for (const std::string& id : {finished, next}) {
    EXPECT_EQ(ended(id).status, Status::completed);
    EXPECT_EQ(row(id).attempts, 2);
  }
  EXPECT_EQ(video(finished), undisturbed({}));
  EXPECT_EQ(video(next), undisturbed(small_));
  close();  // its jobs look at what is here
}

TEST_F(LeasedTest, AJobWaitsUntilWhoeverHadItBeforeHasLetGo) {
  std::atomic<int> steps = 0;
  options_.measured = [&steps](const json& event) { steps += event.value("stage", "") == "denoise"; };
  open();
  auto room = foreman_->make_room();
  const std::string id = add(small_);
  std::optional<OutputLock> former(queue::JobFolder(files_.path, id).video());
  room.reset();
  EXPECT_TRUE(wait([&] { return row(id).status == Status::in_progress; }));
  std::this_thread::sleep_for(milliseconds(1500));
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(row(id).status, Status::in_progress);
  former.reset();
  EXPECT_EQ(ended(id).status, Status::completed);
  EXPECT_EQ(video(id), undisturbed(small_));
}

// A table that looks, when it is told where a job's files are, whether they can be.
class PlacedTable : public queue::SqliteTable {
 public:
  PlacedTable(const fs::path& file, const fs::path& files) : queue::SqliteTable(file), files_(files) {}
  void placed(const std::string& id, const std::string&, const std::string& folder,
              const std::string&) override {
    told = folder;
    has_folder = fs::is_directory(queue::JobFolder(files_, id).path);
  }
  std::string told;
  std::atomic<bool> has_folder = false;

 private:
  const fs::path files_;
};

class PlacedTest : public ShopFloor {
 protected:
  std::unique_ptr<queue::SqliteTable> make_table(const fs::path& file) override {
    auto table = std::make_unique<PlacedTable>(file, files_.path);
    presence_ = std::make_unique<workers::Presence>(*table, [] { return workers::Host{}; });
    options_.presence = presence_.get(), options_.files_id = "f-here";
    return table;
  }
  void TearDown() override { close(), presence_.reset(); }

  std::unique_ptr<workers::Presence> presence_;
};

// Another host that reads the row asks this one for the job's events at once, and they end where no folder is.
TEST_F(PlacedTest, AJobHasItsFolderBeforeOthersAreSentToIt) {
  open();
  const TemporaryFiles elsewhere;
  const std::string id = put(*table_, elsewhere.path, {});
  foreman_->wake();
  EXPECT_EQ(ended(id).status, Status::completed);
  const auto& table = dynamic_cast<const PlacedTable&>(*table_);
  EXPECT_EQ(table.told, "f-here");
  EXPECT_TRUE(table.has_folder);
}

}  // namespace
}  // namespace tachy
