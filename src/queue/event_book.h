// The events of jobs, numbered for each job from 1 on: kept in the job's folder, and handed to those who
// listen. A late listener gets all of them from the first, or from the one after the last that it has seen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tachy::queue {

struct Event {
  int64_t number = 0;
  std::string type;  // queued, progress, preview, done, failed
  std::string data;  // a JSON object
};

class EventBook {
 public:
  // With `shared`, other hosts add to the same files: they are looked at again each time, and five times a second for
  // those who listen.
  explicit EventBook(std::filesystem::path files, bool shared = false);
  ~EventBook();
  // Appends an event and wakes who listens. `done` and `failed` are the last ones of a job. An event that
  // cannot be written to the disk still reaches the listeners.
  void add(const std::string& job, const std::string& type, const nlohmann::json& data);
  std::vector<Event> since(const std::string& job, int64_t number);  // those after this one
  int64_t last(const std::string& job);                              // the number of the newest event, or 0
  // Returns the newest event of this type among the last ones, or nothing.
  std::optional<Event> latest(const std::string& job, const std::string& type);
  bool ended(const std::string& job);  // done or failed has come, or the job is gone
  // `wake` is called in any thread after each event of the job, until the returned handle is dropped.
  std::shared_ptr<void> listen(const std::string& job, std::function<void()> wake);
  void forget(const std::string& job);  // the job is removed: its listeners are woken and end

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy::queue
