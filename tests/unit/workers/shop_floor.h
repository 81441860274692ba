// A server's files, table and Foreman in a folder of their own, for tests of the workers; and jobs of the
// model that ships, small enough to take a second or less.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "jobs/job_json.h"
#include "queue/job_folder.h"
#include "queue/sqlite_table.h"
#include "workers/foreman.h"
#include "workers/wall_clock.h"

namespace tachy::test {

namespace fs = std::filesystem;
using nlohmann::json;
using queue::JobRow;
using queue::Status;

inline fs::path sprites() { return fs::path(TACHY_SOURCE_DIR) / "models/sprites"; }

struct Small {
  int steps = 4, frames = 9, width = 64, height = 64, priority = 0;
  uint64_t seed = 7;
  std::string model = "sprites", prompt = "a red circle moves right", owner = "";
};

inline jobs::JobSpec spec_of(const Small& small) {
  jobs::JobSpec job;
  job.settings.model = sprites().string();
  VideoRequest& r = job.settings.request;
  r.prompt = small.prompt, r.seed = small.seed, r.width = small.width, r.height = small.height;
  r.frames = small.frames, r.steps = small.steps;
  job.output = "video.mp4";
  return job;
}

// Puts a job into the table, with its folder, and returns its id.
inline std::string put(queue::JobTable& table, const fs::path& files, const Small& small) {
  JobRow row;
  row.id = queue::new_job_id(), row.model = small.model, row.needs = small.model, row.owner = small.owner,
  row.priority = small.priority;
  row.settings = jobs::to_json(spec_of(small)).dump(), row.request = "{}";
  row.planned_seconds = 1, row.created_ms = workers::wall_clock_ms();
  fs::create_directories(queue::JobFolder(files, row.id).path);
  EXPECT_EQ(table.insert(row, "", "", 10000, 0).how, queue::Inserted::How::made);
  return row.id;
}

inline std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class TemporaryFiles {
 public:
  TemporaryFiles() {
    std::string name = (fs::temp_directory_path() / "tachyscope-workers-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path = name;
    fs::create_directories(path / "jobs");
  }
  ~TemporaryFiles() {
    std::error_code ec;
    fs::remove_all(path, ec);
  }
  fs::path path;
};

class ShopFloor : public testing::Test {
 protected:
  using Ready = std::function<bool()>;

  // With two cards the processor stands for each of them.
  void open(int at_once = 1, int cards = 1) {
    table_ = make_table(files_.path / "tachyscope.db");
    book_ = std::make_unique<queue::EventBook>(files_.path);
    models_ = std::make_unique<workers::Models>(served_, EngineOptions{.threads = 2, .device = "cpu"},
                                                std::vector<std::string>(static_cast<size_t>(cards), "cpu"));
    options_.files = files_.path, options_.at_once = at_once;
    foreman_ = std::make_unique<workers::Foreman>(options_, *table_, *book_, *models_);
    foreman_->start();
  }
  virtual std::unique_ptr<queue::SqliteTable> make_table(const fs::path& file) {
    return std::make_unique<queue::SqliteTable>(file);
  }
  void close() { foreman_.reset(), models_.reset(), book_.reset(), table_.reset(); }
  void TearDown() override { close(); }

  std::string add(const Small& small) {
    const std::string id = put(*table_, files_.path, small);
    foreman_->wake();
    return id;
  }
  JobRow row(const std::string& id) { return table_->find(id).value_or(JobRow{}); }

  static bool wait(const Ready& ready, double seconds = 60) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!ready()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  // Says whether one of several tries takes less than that many seconds, which it measures itself. A machine that
  // is held up makes some tries slow, and what is slow by itself is so in each of them.
  static bool soon(double seconds, const std::function<double()>& took) {
    for (int tries = 0; tries < 5 && !HasFatalFailure(); ++tries)
      if (took() < seconds) return true;
    return false;
  }
  JobRow ended(const std::string& id) {
    EXPECT_TRUE(wait([&] { return row(id).ended_ms > 0; })) << id << " does not end";
    return row(id);
  }
  // Waits until the job computes in this stage. Returns false if it has ended without having been seen there: a
  // stage may be shorter than the time between two looks.
  bool in_stage(const std::string& id, const std::string& stage, int64_t done = 0) {
    bool met = false;
    return wait([&] {
             const workers::Live live = foreman_->live(row(id));
             met = live.stage == stage && live.done >= done;
             return met || row(id).ended_ms > 0;
           }) &&
           met;
  }
  std::string video(const std::string& id) { return bytes_of(queue::JobFolder(files_.path, id).video()); }
  std::vector<std::string> events(const std::string& id) {
    std::vector<std::string> out;
    for (const queue::Event& e : book_->since(id, 0)) out.push_back(e.type);
    return out;
  }
  // Returns the event that ends the job. The foreman tells it just after the table has the job's end, so that a
  // reader of the table may look too early for it.
  std::string last_event(const std::string& id) {
    const auto last = [&] {
      const std::vector<std::string> told = events(id);
      return told.empty() ? std::string() : told.back();
    };
    EXPECT_TRUE(wait([&] { return last() == "done" || last() == "failed"; }, 10)) << id << " tells no end";
    return last();
  }
  // Returns the file that a run makes which nothing disturbs.
  static std::string undisturbed(const Small& small);

  TemporaryFiles files_;
  std::vector<workers::ServedModel> served_ = {{.name = "sprites", .path = sprites()}};
  workers::ForemanOptions options_;
  std::unique_ptr<queue::SqliteTable> table_;
  std::unique_ptr<queue::EventBook> book_;
  std::unique_ptr<workers::Models> models_;
  std::unique_ptr<workers::Foreman> foreman_;
};

inline std::string ShopFloor::undisturbed(const Small& small) {
  static std::map<std::string, std::string> made;  // by their settings
  std::string& video = made[jobs::to_json(spec_of(small)).dump()];
  if (!video.empty()) return video;
  TemporaryFiles files;
  queue::SqliteTable table(files.path / "tachyscope.db");
  queue::EventBook book(files.path);
  workers::Models models({{.name = small.model, .path = sprites()}}, {.threads = 2, .device = "cpu"});
  workers::Foreman foreman({.files = files.path}, table, book, models);
  foreman.start();
  const std::string id = put(table, files.path, small);
  foreman.wake();
  EXPECT_TRUE(wait([&] { return table.find(id)->ended_ms > 0; }));
  EXPECT_EQ(table.find(id)->status, Status::completed) << table.find(id)->error.message;
  return video = bytes_of(queue::JobFolder(files.path, id).video());
}

}  // namespace tachy::test
