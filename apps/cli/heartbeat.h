// Signs of life from a long command without a terminal: a line on standard error when something begins, and
// every 30 seconds a line that says how far it is.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace tachy::cli {

class Heartbeat {
 public:
  static constexpr double kEverySeconds = 30;
  explicit Heartbeat(double every_seconds = kEverySeconds) : every_seconds_(every_seconds) {}
  ~Heartbeat() { end(); }

  // Prints the line at once; the next one follows 30 seconds later.
  void begin(const std::string& line);
  // Sets the text of the next line. `since` is the number of seconds from this call to the line.
  void update(std::function<std::string(double since)> line);
  void end();  // no more lines follow

 private:
  void beat();

  double every_seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<std::string(double)> line_;
  double updated_ = 0, next_ = 0;  // monotonic seconds
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tachy::cli
