// A pool of objects that take long to make and serve one thread at a time. An object is made if none is free,
// and kept for the next user. Private to src/media.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tachy {

template <class T, class Owner = std::unique_ptr<T>>
class Pool {
 public:
  explicit Pool(std::function<Owner()> make) : make_(std::move(make)) {}

  Owner take() {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        Owner one = std::move(free_.back());
        free_.pop_back();
        return one;
      }
    }
    return make_();
  }
  // If an object is not given back, a new one simply replaces it.
  void give(Owner one) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(one));
  }

 private:
  std::function<Owner()> make_;
  std::mutex mutex_;
  std::vector<Owner> free_;
};

}  // namespace tachy
