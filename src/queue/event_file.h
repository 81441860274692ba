// The events of one job on the disk: each is a line with a JSON object. Lines are appended without waiting
// for the disk: after a kill or a power cut the last one may be torn. It is cut off when the file is next
// read, and numbers go on after the last whole one.
//
// Where several hosts share the folder, another one may be writing at any moment. Then whoever appends locks the file
// EVENTS.lock, and reads first what others have added. Readers take no lock and cut nothing off.
#pragma once

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/os/file.h"
#include "queue/event_book.h"

namespace tachy::queue {

class EventFile {
 public:
  explicit EventFile(std::filesystem::path path, bool shared = false)
      : path_(std::move(path)), shared_(shared) {}

  // Returns all events, or none if there is no file. Whatever follows the last whole event is cut off.
  std::vector<Event> read();
  // Returns the whole events that others have added since the file was last read or appended to.
  std::vector<Event> added();
  // Returns the events after this number, of a file that read() has seen.
  std::vector<Event> after(int64_t number) const;
  // Returns an error if the event is not in the file; the events before it then stay.
  std::error_code append(const Event& event);
  // Keeps others from appending until the handle is dropped; does nothing for a file that nobody shares. A file that
  // cannot be locked within a second is taken as locked.
  os::File locked() const;

 private:
  std::vector<Event> events_in(const std::string& text);

  std::filesystem::path path_;
  bool shared_;
  int64_t last_ = 0;          // the number of the last whole event
  uint64_t whole_bytes_ = 0;  // of whole events
  bool torn_ = true;          // more may follow them
};

}  // namespace tachy::queue
