// Messages that wait for a visitor: events as text, then frames. The world's thread fills it, and the
// server's thread empties it.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "serve/frame_queue.h"

namespace tachy::serve {

class Outbox {
 public:
  // `wake` is called when there is something to send, in any thread; it must not block.
  Outbox(size_t most_events, std::function<void()> wake)
      : most_events_(most_events), wake_(std::move(wake)) {}

  void event(std::string text) {
    {
      const std::lock_guard lock(mutex_);
      if (events_.size() >= most_events_) {
        overfull_ = true;
        return;
      }
      events_.push_back(std::move(text));
    }
    wake_();
  }
  // Queues a message that the next one of its kind will replace, so it is dropped if many events wait.
  void news(std::string text) {
    {
      const std::lock_guard lock(mutex_);
      if (events_.size() >= 8) return;
    }
    event(std::move(text));
  }
  void frame(QueuedFrame frame) {
    frames.push(std::move(frame));
    wake_();
  }
  std::optional<std::string> pop_event() {
    const std::lock_guard lock(mutex_);
    if (events_.empty()) return std::nullopt;
    std::string text = std::move(events_.front());
    events_.pop_front();
    return text;
  }
  bool overfull() const {  // an event was left out because the visitor does not read
    const std::lock_guard lock(mutex_);
    return overfull_;
  }

  FrameQueue frames;

 private:
  const size_t most_events_;
  std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::deque<std::string> events_;
  bool overfull_ = false;
};

}  // namespace tachy::serve
