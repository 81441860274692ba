// Frames between the world's thread and a visitor's socket: at most those of one block. When the next block begins to
// arrive, what is left of an older one is dropped, so that a slow reader sees the newest frames and holds no more memory.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace tachy::serve {

struct QueuedFrame {
  uint64_t sequence = 0;       // counts all frames of a visit, dropped ones too
  uint64_t block = 0;          // counts all blocks of a visit
  std::vector<uint8_t> bytes;  // what the socket sends: header and picture (messages.h)
};

class FrameQueue {
 public:
  void push(QueuedFrame frame) {
    const std::lock_guard lock(mutex_);
    while (!frames_.empty() && frames_.front().block != frame.block) frames_.pop_front(), ++dropped_;
    frames_.push_back(std::move(frame));
  }
  std::optional<QueuedFrame> pop() {  // the oldest
    const std::lock_guard lock(mutex_);
    if (frames_.empty()) return std::nullopt;
    QueuedFrame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return frames_.empty();
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return frames_.size();
  }
  uint64_t dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<QueuedFrame> frames_;
  uint64_t dropped_ = 0;
};

}  // namespace tachy::serve
