// Frames on their way from the world's thread to a visitor's socket: at most those of one block. When the
// next block begins to arrive, remaining frames of an older one are dropped, so that a slow reader sees the
// newest frames and takes no more memory.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace tachy::serve {

struct QueuedFrame {
  uint64_t sequence = 0;       // counts all frames of a visit, including dropped ones
  uint64_t block = 0;          // counts all blocks of a visit
  std::vector<uint8_t> bytes;  // the bytes to send: header and picture (messages.h)
};

class FrameQueue {
 public:
  void push(QueuedFrame frame) {
    const std::lock_guard lock(mutex_);
    while (!frames_.empty() && frames_.front().block != frame.block) frames_.pop_front(), ++dropped_;
    frames_.push_back(std::move(frame));
  }
  std::optional<QueuedFrame> pop() {  // returns the oldest frame
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
