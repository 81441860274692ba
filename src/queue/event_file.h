// The events of one job on the disk: each is a line with a JSON object. Lines are appended without waiting
// for the disk: after a kill or a power cut the last one may be torn. It is cut off when the file is next
// read, and numbers go on after the last whole one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "queue/event_book.h"

namespace tachy::queue {

class EventFile {
 public:
  explicit EventFile(std::filesystem::path path) : path_(std::move(path)) {}

  // Returns all events, or none if there is no file. Whatever follows the last whole event is cut off.
  std::vector<Event> read();
  // Returns the events after this number, of a file that read() has seen.
  std::vector<Event> after(int64_t number) const;
  // Returns an error if the event is not in the file; the events before it then stay.
  std::error_code append(const Event& event);

 private:
  std::filesystem::path path_;
  uint64_t whole_bytes_ = 0;  // of whole events
  bool torn_ = true;          // more may follow them
};

}  // namespace tachy::queue
