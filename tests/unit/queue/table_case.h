// A table in a folder of its own, with a clock that the test moves, and jobs to put into it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/error.h"
#include "queue/job_folder.h"
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

class Table : public Folder {
 protected:
  Table() { open(); }
  void open() {
    table_.reset();
    table_ = std::make_unique<SqliteTable>(
        file(), SqliteOptions{.keep_ms = 5000, .now_ms = [this] { return now_ms_; }});
  }
  SqliteTable& table() { return *table_; }

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
  std::unique_ptr<SqliteTable> table_;
};

}  // namespace tachy::queue
