// Signs of life of a long command where there is no terminal: a line on standard error when something begins, and every 30 seconds
// one that says how far it is.
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

  // The line is printed at once, and the next one 30 seconds after it.
  void begin(const std::string& line);
  // Sets what the next line says. since: seconds between this call and the line.
  void update(std::function<std::string(double since)> line);
  void end();  // no more lines come

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
