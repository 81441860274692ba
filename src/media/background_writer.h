// Encodes on a thread of its own, so that a group of frames is encoded while the next one is computed.
//
// Frames are copied into a queue of bounded size; write() waits while it is full. What the encoder throws
// is thrown by the next write() or by finish(). Without finish() the queue is given up and the file never
// gets its name.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "media/video_writer.h"

namespace tachy {

class BackgroundWriter {
 public:
  static constexpr size_t kQueueBytes = size_t{32} << 20;  // and at least four frames

  explicit BackgroundWriter(std::unique_ptr<VideoWriter> writer);
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  void write(RgbView frame);
  void finish();  // once: waits until every frame is encoded, then finishes the file

 private:
  struct Frame {
    std::vector<uint8_t> rgb;
    int width, height;
  };
  void run();
  void stop();  // ends the thread; frames that wait are given up
  bool full() const { return queue_.size() >= 4 && bytes_ >= kQueueBytes; }

  std::unique_ptr<VideoWriter> writer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Frame> queue_;
  size_t bytes_ = 0;  // in the queue
  bool busy_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace tachy
