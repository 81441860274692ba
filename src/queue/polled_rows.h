// Rows that were read lately, in memory, for a table that other processes write, too. A row that this process
// changes is dropped at once. Of the others a thread asks every second or so which ones have changed, many at
// a time, and a row that was not confirmed for a while is not handed out. So many clients who ask for their
// jobs cost a database little, and none of them is told what is older than a beat. Private to src/queue.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "queue/job_row.h"

namespace tachy::queue {

class PolledRows {
 public:
  struct Seen {
    std::string id, version;
  };
  // Returns the ids of those rows that are not there any more with this version. Throws Error if nobody knows.
  using Changed = std::function<std::vector<std::string>(const std::vector<Seen>& rows)>;
  // Returns how long to wait between two looks at so many rows.
  using Interval = std::function<std::chrono::milliseconds(size_t rows)>;
  PolledRows(Changed changed, Interval interval);
  ~PolledRows();
  PolledRows(const PolledRows&) = delete;
  PolledRows& operator=(const PolledRows&) = delete;

  // Returns null for a row that is not here, or was not confirmed lately.
  std::shared_ptr<const JobRow> get(const std::string& id);

  // To be called before a row is read that will be put: one that was read while this process changed another
  // one is not kept.
  struct Moment {
    uint64_t changes;
    std::chrono::steady_clock::time_point time;
  };
  Moment now() const;
  void put(JobRow row, std::string version, const Moment& before);

  void drop(const std::string& id);
  void drop_all();

 private:
  using Clock = std::chrono::steady_clock;
  struct Kept {
    std::shared_ptr<const JobRow> row;
    std::string version;
    Clock::time_point confirmed, asked;
    size_t bytes = 0;
  };
  void watch();
  void look();
  std::vector<Seen> asked_lately();
  void confirm(const std::vector<Seen>& rows, const std::vector<std::string>& changed, Clock::time_point at);
  void erase(std::unordered_map<std::string, Kept>::iterator at);

  const Changed changed_;
  const Interval interval_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  uint64_t changes_ = 0;
  size_t bytes_ = 0;
  std::unordered_map<std::string, Kept> rows_;
  std::thread thread_;
};

}  // namespace tachy::queue
