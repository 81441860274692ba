// A thread that hears what other processes tell (LISTEN and NOTIFY), by a connection of its own. While the
// database is away it tries to reach it, and then tells that something may have been missed.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace tachy::postgres {

class Listener {
 public:
  // `heard` is called in the thread with each message of the channel, and with "" whenever the connection is
  // new: what was told before is lost.
  Listener(std::string address, std::string schema, std::string channel,
           std::function<void(const std::string& message)> heard);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  bool hears() const { return hears_; }  // the connection is there

 private:
  void work();
  void hear();

  const std::string address_, schema_, channel_;
  const std::function<void(const std::string&)> heard_;
  std::atomic<bool> ending_ = false, hears_ = false;
  std::thread thread_;
};

}  // namespace tachy::postgres
