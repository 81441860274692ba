// Tests what only a table of several hosts has: leases, wakes between processes, schemas of other versions,
// rights, and a database that goes away. All of them need TACHY_DATABASE (tests/postgres/run).
#include <chrono>
#include <future>
#include <set>
#include <thread>

#include "postgres/address.h"
#include "queue/postgres_schema.h"
#include "table_case.h"

namespace tachy::queue {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kSoon{2000};  // less than what is heard takes when it is only looked for

bool holds(const std::optional<std::vector<HeldJob>>& held, const std::string& id) {
  return held && std::ranges::find(*held, id, &HeldJob::id) != held->end();
}

std::string with_database_of(const std::string& user_and_password) {
  const std::string address = database_of_tests();
  return "postgresql://" + user_and_password + address.substr(address.find('@'));
}

class Leases : public Table {
 protected:
  // Opens the table as another host does.
  std::unique_ptr<JobTable> another() {
    return place_->open_postgres({.message_ms = 60'000, .now_ms = [this] { return now_ms_; }});
  }
  std::string refusal(const std::string& address, ErrorCode code, const std::string& schema = "test_none") {
    return message_of(code, [&] { PostgresTable(address, {.patience_seconds = 0, .schema = schema}); });
  }
};
INSTANTIATE_TEST_SUITE_P(Postgres, Leases, testing::Values(Kind::postgres));

TEST_P(Leases, AreRenewedByTheirWorker) {
  table().enlist("a");
  const std::string id = added().id;
  table().claim(id, "a");
  for (int i = 0; i < 4; ++i) {
    now_ms_ += 29'000;
    EXPECT_THAT(another()->recover_lost(), IsEmpty());
    EXPECT_TRUE(holds(table().heartbeat("a"), id));
  }
  table().wish(id, Wish::pause, std::nullopt);
  EXPECT_EQ(table().heartbeat("a")->front().wish, Wish::pause);
}

TEST_P(Leases, ThatHaveEndedGiveTheJobsToOthers) {
  table().enlist("a"), table().enlist("b");
  const std::string id = added().id, other = added().id;
  const JobRow had = table().claim(id, "a").value();
  table().claim(other, "b");
  now_ms_ += 20'000;
  EXPECT_TRUE(table().heartbeat("b").has_value());
  now_ms_ += 10'001;
  const std::vector<JobRow> rows = another()->recover_lost();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].id, id);
  EXPECT_THAT(another()->recover_lost(), IsEmpty());
  EXPECT_FALSE(table().heartbeat("a").has_value());
  EXPECT_TRUE(holds(table().heartbeat("b"), other));
  // Whatever the first worker writes now changes nothing, and neither does it when another has the job.
  JobRow ended = had;
  ended.status = Status::completed;
  for (int round = 0; round < 2; ++round) {
    EXPECT_FALSE(table().end(ended, "a", std::nullopt));
    EXPECT_FALSE(table().give_back(id, "a", false));
    table().progress(id, "a", 77);
    EXPECT_EQ(table().find(id)->progress, 0);
    if (round == 0) table().claim(id, "b");
  }
  EXPECT_EQ(table().find(id)->worker, "b");
  EXPECT_EQ(table().find(id)->status, Status::in_progress);
  table().enlist("a");
  EXPECT_THAT(*table().heartbeat("a"), IsEmpty());
}

TEST_P(Leases, AreOneForAName) {
  table().enlist("a");
  EXPECT_THAT(message_of(ErrorCode::io, [&] { another()->enlist("a"); }), HasSubstr("the name a is alive"));
  const std::string id = added().id;
  table().claim(id, "a");
  EXPECT_EQ(another()->recover("a").size(), 1u);  // whoever knows that it is dead need not wait
  another()->enlist("a");
  now_ms_ += 30'001;
  table().enlist("a");  // the lease has ended
}

// A worker that is late, but whose jobs nobody has taken, goes on.
TEST_P(Leases, ThatAreLateButWereNotTakenGoOn) {
  table().enlist("a");
  const std::string id = added().id;
  table().claim(id, "a");
  now_ms_ += 3'600'000;
  EXPECT_TRUE(holds(table().heartbeat("a"), id));
  EXPECT_THAT(another()->recover_lost(), IsEmpty());
}

TEST_P(Leases, GoByTheDatabasesClockAlone) {
  const auto own = place_->open_postgres({});
  own->enlist("a");
  const std::string id = own->insert(a_job(), "", "", 0, 0).row.id;
  const JobRow row = own->claim(id, "a").value();
  const int64_t told = place_->number("SELECT clock_ms(NULL)");
  EXPECT_NEAR(static_cast<double>(row.started_ms), static_cast<double>(told), 5000);
  EXPECT_NEAR(static_cast<double>(own->now_ms()), static_cast<double>(told), 5000);
  EXPECT_NEAR(static_cast<double>(place_->number("SELECT until_ms FROM workers")), told + 30'000.0, 5000);
}

TEST_P(Leases, WakeTheWorkerOfAWish) {
  const auto here = place_->open_postgres({}), there = place_->open_postgres({});
  here->enlist("a");
  std::atomic<int> woken = 0;
  auto handle = here->listen([&] { ++woken; });
  const auto seen = [&](int count) {
    for (const auto until = Clock::now() + kSoon; woken < count && Clock::now() < until;)
      std::this_thread::sleep_for(milliseconds(5));
    return woken >= count;
  };
  const uint64_t before = here->version();
  const std::string id = there->insert(a_job(), "", "", 0, 0).row.id;
  EXPECT_TRUE(seen(1)) << "a new job";
  EXPECT_NE(here->version(), before);
  here->claim(id, "a");
  there->wish(id, Wish::cancel, std::nullopt);
  EXPECT_TRUE(seen(2)) << "a wish";
  EXPECT_EQ(here->heartbeat("a")->front().wish, Wish::cancel);
  const std::string foreign = there->insert(a_job(), "", "", 0, 0).row.id;
  EXPECT_TRUE(seen(3));
  there->claim(foreign, "b");
  there->wish(foreign, Wish::cancel, std::nullopt);
  here->wish(id, Wish::cancel, std::nullopt);  // one's own changes wake nobody here
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(woken, 3) << "a wish for another host's job";
  handle.reset();
  there->insert(a_job(), "", "", 0, 0);
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(woken, 3);
}

// Rows in memory are this host's alone: what another one writes is seen within a beat, and what was not
// confirmed for longer is not handed out.
TEST_P(Leases, RowsInMemoryFollowOtherHosts) {
  const auto here = place_->open_postgres({}), there = place_->open_postgres({});
  const std::string changed = here->insert(a_job(), "", "", 0, 0).row.id;
  const std::string removed = here->insert(a_job(), "", "", 0, 0).row.id;
  const std::string same = here->insert(a_job(), "", "", 0, 0).row.id;
  const auto all_known = [&] {
    for (const std::string& id : {changed, removed, same}) here->find(id);
    return here->known(changed) && here->known(removed) && here->known(same);
  };
  ASSERT_TRUE(all_known());
  there->set_paused(changed, true), there->remove(removed);
  const auto begin = Clock::now();
  while ((here->known(changed) || here->known(removed)) && Clock::now() < begin + std::chrono::seconds(5))
    std::this_thread::sleep_for(milliseconds(5));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(5));
  EXPECT_NE(here->known(same), nullptr) << "nobody has changed it";
  std::this_thread::sleep_until(begin + std::chrono::seconds(5));
  EXPECT_NE(here->known(same), nullptr) << "it was confirmed since";
  EXPECT_TRUE(here->find(changed)->paused);
}

TEST_P(Leases, RowsInMemoryGoWithTheConnectionThatHears) {
  const auto here = place_->open_postgres({});
  const std::string id = here->insert(a_job(), "", "", 0, 0).row.id;
  here->find(id);
  ASSERT_NE(here->known(id), nullptr);
  place_->run(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tachyscope' AND pid "
      "<> "
      "pg_backend_pid()");
  for (const auto until = Clock::now() + kSoon; here->known(id) && Clock::now() < until;)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(here->known(id), nullptr);
  std::this_thread::sleep_for(milliseconds(800));  // it hears again by now, unless the machine is busy
  EXPECT_EQ(here->known(id), nullptr) << "what was told meanwhile is lost";
  for (const auto until = Clock::now() + milliseconds(20'000); !here->known(id) && Clock::now() < until;)
    here->find(id), std::this_thread::sleep_for(milliseconds(5));
  EXPECT_NE(here->known(id), nullptr);
}

TEST_P(Leases, HandAMessageToOneHost) {
  JobRow row = table().claim(added().id, "a").value();
  row.status = Status::completed;
  table().end(row, "a", Webhook{.id = "msg_1", .job = row.id, .type = "t", .body = "{}", .due_ms = 10});
  const auto one = another(), two = another();
  EXPECT_EQ(one->due_webhooks(100, 5).size(), 1u);
  EXPECT_THAT(two->due_webhooks(100, 5), IsEmpty());
  EXPECT_EQ(two->due_webhooks(60'100, 5).size(), 1u) << "the first host was gone before it had sent it";
}

TEST_P(Leases, TablesAreMadeOnceByManyAtATime) {
  const Place fresh(Kind::postgres, "");
  std::vector<std::future<bool>> opened;
  for (int i = 0; i < 6; ++i)
    opened.push_back(std::async(std::launch::async, [&] { return fresh.open()->counts().queued == 0; }));
  for (auto& one : opened) EXPECT_TRUE(one.get());
  EXPECT_EQ(fresh.number("SELECT count(*) FROM schema_version"), 1);
  EXPECT_EQ(fresh.number("SELECT version FROM schema_version"), newest_postgres_schema());
}

TEST_P(Leases, TablesOfANewerVersionAreRefusedUnlessTheyAllowThisOne) {
  place_->run("UPDATE schema_version SET version = 1000");
  another()->counts();  // works_with is as old as this program
  place_->run("UPDATE schema_version SET works_with = 1000");
  EXPECT_THAT(refusal(database_of_tests(), ErrorCode::unsupported, place_->schema),
              AllOf(HasSubstr("newer version"), HasSubstr("1000")));
}

TEST_P(Leases, AddressesThatCannotBeReadAreNotRepeated) {
  for (const char* address :
       {"", "mysql://u:secret@h/d", "postgresql://u:secret@h:70x/d", "postgresql://u:se%cret@h/d",
        "postgresql://u:secret@h/d?colour=red", "postgresql:/u:secret@h", "host=h password=secret"})
    EXPECT_THAT(refusal(address, ErrorCode::invalid_argument),
                AllOf(HasSubstr("expected an address"), Not(HasSubstr("secret"))))
        << address;
  EXPECT_EQ(postgres::shown_address("postgresql://u:secret@h:77/d?connect_timeout=3"), "postgresql://h:77/d");
}

TEST_P(Leases, DatabasesThatRefuseOrAreNotThereAreReported) {
  EXPECT_THAT(refusal(with_database_of("tachy:wrong-one"), ErrorCode::io),
              AllOf(HasSubstr("password authentication failed"), Not(HasSubstr("wrong-one"))));
  EXPECT_THAT(refusal(database_of_tests() + "_none", ErrorCode::io), HasSubstr("does not exist"));
  EXPECT_THAT(refusal("postgresql://u:secret@127.0.0.1:1/d", ErrorCode::io),
              AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("refused"), Not(HasSubstr("secret"))));
}

TEST_P(Leases, RightsThatAreMissingAreNamed) {
  const std::string user = place_->schema + "_user";
  place_->run("CREATE ROLE " + user + " LOGIN PASSWORD 'pw'");
  const std::string address = with_database_of(user + ":pw");
  EXPECT_THAT(refusal(address, ErrorCode::io, place_->schema + "_new"),
              AllOf(HasSubstr("permission denied"), HasSubstr("CREATE SCHEMA " + place_->schema + "_new")));
  EXPECT_THAT(refusal(address, ErrorCode::io, place_->schema), HasSubstr("permission denied"));
  place_->run("GRANT USAGE ON SCHEMA " + place_->schema + " TO " + user +
              "; GRANT SELECT ON ALL TABLES IN SCHEMA " + place_->schema + " TO " + user);
  {
    PostgresTable table(address, {.schema = place_->schema});
    EXPECT_EQ(table.counts().queued, 0);
    EXPECT_THAT(message_of(ErrorCode::io, [&] { table.insert(a_job(), "", "", 0, 0); }),
                AllOf(HasSubstr("permission denied"), HasSubstr("GRANT")));
  }
  place_->run("DROP OWNED BY " + user + "; DROP ROLE " + user);
}

// Statements that the database ends from its side, as a restart does, are made again and are made once.
TEST_P(Leases, ConnectionsThatAreLostAreMadeAgain) {
  const auto own = place_->open_postgres({});
  std::atomic<bool> ending = false;
  std::thread cutter([&] {
    while (!ending) {
      place_->run(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tachyscope' AND "
          "pid <> "
          "pg_backend_pid()");
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  int made = 0, refused = 0;
  std::set<std::string> ids;
  for (int i = 0; i < 60; ++i) try {
      ids.insert(own->insert(a_job(), "key" + std::to_string(i / 2), "print", 0, 0).row.id), ++made;
    } catch (const postgres::Unreachable&) {
      ++refused, --i;  // a client tries again
    }
  ending = true;
  cutter.join();
  EXPECT_EQ(made, 60);
  EXPECT_EQ(ids.size(), 30u);
  EXPECT_EQ(place_->number("SELECT count(*) FROM jobs"), 30);
  RecordProperty("refused", refused);
}

}  // namespace
}  // namespace tachy::queue
