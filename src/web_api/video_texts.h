// Video objects as texts, for rows that many clients ask for: of an answer to a poll hardly anything changes from one
// time to the next, and to make all of it anew takes ten times as long as everything else.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "queue/job_row.h"
#include "workers/foreman.h"

namespace tachy::web_api {

class VideoTexts {
 public:
  // Returns the JSON of video_object(). A row that changes is another object (JobTable::known).
  std::string of(const std::shared_ptr<const queue::JobRow>& row, const workers::Live& live);

 private:
  static constexpr size_t kMostBytes = size_t{64} << 20;
  struct Text {
    std::shared_ptr<const queue::JobRow> row;
    std::shared_ptr<const std::string> begin;  // the object without its live fields and its last brace
  };
  void put(const std::string& id, Text text);
  static size_t bytes_of(const Text& text);

  std::mutex mutex_;
  size_t bytes_ = 0;
  std::unordered_map<std::string, Text> texts_;  // by id
};

}  // namespace tachy::web_api
