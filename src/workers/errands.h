// Does in a thread of its own what a dispatcher would be held up by: to fetch a video of another host and to read a
// picture of it takes seconds, in which other jobs may begin.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace tachy::workers {

class Errands {
 public:
  Errands() = default;
  ~Errands();  // waits for the one that is under way, and forgets the others
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;

  // Returns at once. One errand of a name is enough: while it waits or is under way, this returns false, and the other
  // one is left out. `run` must not throw.
  bool want(const std::string& name, std::function<void()> run);

 private:
  struct Errand {
    std::string name;
    std::function<void()> run;
  };
  void work();

  std::mutex mutex_;
  std::condition_variable news_;
  std::list<Errand> errands_;  // the first one is under way
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace tachy::workers
