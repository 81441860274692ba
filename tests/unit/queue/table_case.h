// A table of either kind, in a folder or a schema of its own, with a clock that the test moves, and jobs to
// put into it. Tests of PostgreSQL need TACHY_DATABASE, which tests/postgres/run sets, and are skipped
// without it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/random_bytes.h"
#include "queue/job_folder.h"
#include "queue/postgres_table.h"
#include "queue/sqlite_table.h"

namespace tachy::queue {

class Folder : public testing::Test {
 protected:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tachyscope-queue-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~Folder() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file() const { return folder_ / "tachyscope.db"; }
  std::filesystem::path folder_;
};

// Returns the message of the Error that `body` throws, and expects its code.
template <class Body>
std::string message_of(ErrorCode code, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline JobRow a_job(const std::string& owner = "", double seconds = 10) {
  JobRow job;
  job.id = new_job_id(), job.owner = owner, job.model = "wan", job.needs = "wan";
  job.request = R"({"prompt":"a red circle"})", job.settings = R"({"seed":7})", job.facts = "{}";
  job.planned_seconds = seconds;
  return job;
}

enum class Kind { sqlite, postgres };

inline std::string database_of_tests() {
  const char* address = std::getenv("TACHY_DATABASE");
  return address ? address : "";
}

// A table that this process and others open, and that is gone when it ends.
class Place {
 public:
  Place(Kind kind, std::filesystem::path file) : kind(kind), file_(std::move(file)) {}
  ~Place() {
    if (kind == Kind::postgres && getpid() == owner_) run("DROP SCHEMA IF EXISTS " + schema + " CASCADE");
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  std::unique_ptr<JobTable> open(std::function<int64_t()> now_ms = {}) const {
    if (kind == Kind::sqlite)
      return std::make_unique<SqliteTable>(file_,
                                           SqliteOptions{.keep_ms = 5000, .now_ms = std::move(now_ms)});
    return open_postgres({.keep_ms = 5000, .message_ms = 0, .now_ms = std::move(now_ms)});
  }
  std::unique_ptr<PostgresTable> open_postgres(PostgresOptions options) const {
    options.schema = schema;
    return std::make_unique<PostgresTable>(database_of_tests(), std::move(options));
  }
  // Runs a statement of the database beside the table.
  void run(const std::string& sql) const {
    if (kind == Kind::sqlite)
      Sqlite(file_, Sqlite::Access::write).run(sql.c_str());
    else
      postgres::Connection(database_of_tests(), schema).run(sql);
  }
  int64_t number(const std::string& sql) const {
    if (kind == Kind::postgres)
      return postgres::Connection(database_of_tests(), schema).query(sql).integer(0, 0);
    Sqlite database(file_, Sqlite::Access::read);
    Query query = database.query(sql);
    return query.next() ? query.integer(0) : -1;
  }

  const Kind kind;
  const std::string schema = "test_" + random_hex(16);

 private:
  const std::filesystem::path file_;
  const pid_t owner_ = getpid();
};

// Skips the test where there is no database of this kind.
class OfKind : public Folder, public testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::postgres && database_of_tests().empty())
      GTEST_SKIP() << "TACHY_DATABASE is not set: tests/postgres/run starts a PostgreSQL";
    place_.emplace(GetParam(), file());
  }
  std::optional<Place> place_;
};

#define TACHY_FOR_BOTH_TABLES(suite)                                      \
  INSTANTIATE_TEST_SUITE_P(Sqlite, suite, testing::Values(Kind::sqlite)); \
  INSTANTIATE_TEST_SUITE_P(Postgres, suite, testing::Values(Kind::postgres))

class Table : public OfKind {
 protected:
  void SetUp() override {
    OfKind::SetUp();
    if (place_) open();
  }
  void open() {
    table_.reset();
    table_ = place_->open([this] { return now_ms_; });
  }
  JobTable& table() { return *table_; }

  // Makes the table refuse rows of one of its parts, as a disk that fails in the middle of a change would.
  void refuse(const std::string& part) {
    if (GetParam() == Kind::sqlite)
      return place_->run("CREATE TRIGGER refuse BEFORE INSERT ON " + part +
                         " BEGIN SELECT RAISE(ABORT, 'no'); END");
    place_->run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$; "
        "CREATE TRIGGER refuse BEFORE INSERT ON " +
        part + " EXECUTE FUNCTION refuse()");
  }
  void refuse_no_more(const std::string& part) {
    place_->run(GetParam() == Kind::sqlite ? "DROP TRIGGER refuse"
                                           : "DROP TRIGGER refuse ON " + part + "; DROP FUNCTION refuse");
  }
  std::string unique() const { return GetParam() == Kind::sqlite ? "UNIQUE" : "unique constraint"; }

  // Adds a job, which must be accepted, and returns it as the table has it.
  JobRow added(const JobRow& job) {
    const Inserted inserted = table().insert(job, "", "", 0, 0);
    EXPECT_EQ(inserted.how, Inserted::How::made);
    return inserted.row;
  }
  JobRow added(const std::string& owner = "", double seconds = 10) { return added(a_job(owner, seconds)); }
  std::vector<std::string> line() {
    std::vector<std::string> ids;
    for (const WaitingJob& job : table().waiting()) ids.push_back(job.id);
    return ids;
  }
  // Claims the job and ends it.
  void finish(const std::string& id, Status status = Status::completed, uint64_t bytes = 100) {
    JobRow row = table().claim(id, "w").value();
    row.status = status, row.bytes = bytes, row.expires_ms = 0;
    if (status == Status::failed) row.error = {"cancelled", "was cancelled"};
    EXPECT_TRUE(table().end(row, "w", std::nullopt));
  }

  int64_t now_ms_ = 1'800'000'000'000;
  std::unique_ptr<JobTable> table_;
};

}  // namespace tachy::queue
