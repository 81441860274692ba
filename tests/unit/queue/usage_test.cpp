// Tests the hosts that share a table, and what the holders of keys have used: once for each job, by day and model, and for runs that were interrupted.
#include "table_case.h"

namespace tachy::queue {
namespace {

using testing::IsEmpty;

class UsageTable : public Table {
 protected:
  void make(const std::string& owner, const Usage& used, Status status = Status::completed) {
    const std::string id = added(owner).id;
    JobRow row = table().claim(id, "w").value();
    row.status = status, row.usage = used;
    EXPECT_TRUE(table().end(row, "w", std::nullopt));
    EXPECT_FALSE(table().end(row, "w", std::nullopt));  // nothing is counted twice
  }
  std::vector<UsageRow> all() { return table().usage(nullptr, 0, 1'000'000); }
};

TACHY_FOR_BOTH_TABLES(UsageTable);

TEST_P(UsageTable, IsAddedUpForEachOwnerAndDay) {
  EXPECT_THAT(all(), IsEmpty());
  make("anna", {.frames = 5, .pixels = 500, .seconds = 2});
  make("anna", {.frames = 9, .pixels = 900, .seconds = 3});
  make("bert", {.seconds = 1.5}, Status::failed);
  table().add_usage("anna", "wan", {.seconds = 0.25});
  const auto rows = all();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].owner, "anna");
  EXPECT_EQ(rows[0].model, "wan");
  EXPECT_EQ(rows[0].day, day_of_ms(now_ms_));
  EXPECT_EQ(rows[0].jobs, 2);
  EXPECT_EQ(rows[0].used.frames, 14);
  EXPECT_DOUBLE_EQ(rows[0].used.pixels, 1400);
  EXPECT_DOUBLE_EQ(rows[0].used.seconds, 5.25);
  EXPECT_EQ(rows[1].owner, "bert");
  EXPECT_EQ(rows[1].jobs, 0);
  EXPECT_DOUBLE_EQ(rows[1].used.seconds, 1.5);
  now_ms_ += 86'400'000;
  make("anna", {.frames = 1, .pixels = 10, .seconds = 1});
  const std::string anna = "anna";
  ASSERT_EQ(table().usage(&anna, 0, 1'000'000).size(), 2u);
  const int64_t today = day_of_ms(now_ms_);
  ASSERT_EQ(table().usage(&anna, today, today).size(), 1u);
  EXPECT_EQ(table().usage(&anna, today, today)[0].used.frames, 1);
}

TEST_P(UsageTable, OutlivesItsJobsAndARestart) {
  make("anna", {.frames = 5, .pixels = 500, .seconds = 2});
  table().remove(table().list(nullptr, "", 1, true).rows[0].id);
  open();
  ASSERT_EQ(all().size(), 1u);
  EXPECT_EQ(all()[0].used.frames, 5);
}

// A job that is cancelled while it waits has used nothing, and leaves no row.
TEST_P(UsageTable, HasNoRowsOfNothing) {
  table().wish(added("anna").id, Wish::cancel, std::nullopt);
  EXPECT_THAT(all(), IsEmpty());
}

class HostsTable : public Table {};
INSTANTIATE_TEST_SUITE_P(Postgres, HostsTable, testing::Values(Kind::postgres));

TEST_P(HostsTable, KnowsWhoIsThere) {
  table().announce({.name = "b", .address = "10.0.0.2:8190", .files = "f2", .about = "{}"});
  table().announce({.name = "a", .address = "10.0.0.1:8190", .files = "f1", .about = R"({"role":"api"})"});
  auto hosts = table().hosts();
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0].name, "a");
  EXPECT_EQ(hosts[0].address, "10.0.0.1:8190");
  EXPECT_EQ(hosts[0].about, R"({"role":"api"})");
  EXPECT_TRUE(hosts[0].alive);
  now_ms_ += 20'000;
  table().announce({.name = "b", .address = "10.0.0.3:8190", .files = "f2", .about = "{}"});
  now_ms_ += 20'000;
  hosts = table().hosts();
  EXPECT_FALSE(hosts[0].alive);
  EXPECT_DOUBLE_EQ(hosts[0].silent_seconds, 40);
  EXPECT_TRUE(hosts[1].alive);
  EXPECT_EQ(hosts[1].address, "10.0.0.3:8190");
  now_ms_ += 24 * 3600 * 1000;
  EXPECT_THAT(table().hosts(), IsEmpty());
}

// The same name in another folder is another host, which would get the first one's jobs.
TEST_P(HostsTable, RefusesANameThatIsTaken) {
  table().announce({.name = "a", .address = "", .files = "f1", .about = ""});
  EXPECT_THAT(message_of(ErrorCode::io,
                         [&] { table().announce({.name = "a", .address = "", .files = "f2", .about = ""}); }),
              testing::HasSubstr("another host with the name a"));
  table().announce({.name = "a", .address = "", .files = "f1", .about = ""});  // it comes back after a kill
  now_ms_ += 31'000;
  table().announce({.name = "a", .address = "", .files = "f2", .about = ""});  // the first one is gone
  EXPECT_EQ(table().hosts()[0].files, "f2");
}

TEST_P(HostsTable, FreesTheNameOfAHostThatDeparts) {
  table().announce({.name = "a", .address = "", .files = "f1", .about = ""});
  table().depart({.name = "a", .address = "", .files = "f2", .about = ""});  // another one of that name
  EXPECT_TRUE(table().hosts()[0].alive);
  table().depart({.name = "a", .address = "", .files = "f1", .about = ""});
  ASSERT_EQ(table().hosts().size(), 1u) << "who asks for its files is told its name";
  EXPECT_FALSE(table().hosts()[0].alive);
  table().announce({.name = "a", .address = "", .files = "f2", .about = ""});
  EXPECT_TRUE(table().hosts()[0].alive);
}

TEST_P(HostsTable, KnowsWhereAJobIs) {
  JobRow job = a_job();
  job.files = "f1";
  const std::string id = added(job).id;
  EXPECT_EQ(table().find(id)->files, "f1");
  EXPECT_EQ(table().waiting()[0].files, "f1");
  ASSERT_TRUE(table().claim(id, "w"));
  table().placed(id, "v", "f3", "no");
  EXPECT_EQ(table().find(id)->files, "f1");
  table().placed(id, "w", "f2", "it was free");
  EXPECT_EQ(table().find(id)->files, "f2");
  EXPECT_EQ(table().find(id)->why, "it was free");
}

}  // namespace
}  // namespace tachy::queue
