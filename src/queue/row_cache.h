// Rows that were read lately, in memory, so that many clients who ask for the same jobs cost no reading. It is for
// a table that nobody else writes: whoever changes a row drops it here once the change is on the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "queue/job_row.h"

namespace tachy::queue {

class RowCache {
 public:
  // Returns null for a row that is not here.
  std::shared_ptr<const JobRow> get(const std::string& id) const;

  // To be called before a row is read that will be put: a row that was read while another change came is not kept.
  uint64_t changes() const;
  void put(JobRow row, uint64_t changes);

  void drop(const std::string& id);
  void drop_all();

 private:
  static constexpr size_t kMostRows = 1024;

  mutable std::mutex mutex_;
  uint64_t changes_ = 0;
  std::unordered_map<std::string, std::shared_ptr<const JobRow>> rows_;
};

}  // namespace tachy::queue
