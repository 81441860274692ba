// Encodes in the background while another thread makes the frames.
//
// Frames are copied into a queue. A few threads prepare them (colour conversion, a picture's compression) in
// any order, and one more passes them to the encoder in the right order. The queue has room for a clip of 81
// frames at 480p or 720p, so that a GPU that decodes faster than the encoder works does not wait; beyond
// kQueueBytes, write() waits. An exception in any thread is thrown by the next write() or by finish().
// Without finish() the queue is dropped and the file never gets its name.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/profile_range.h"
#include "media/video/video_writer.h"

namespace tachy {

class BackgroundWriter {
 public:
  static constexpr size_t kQueueBytes = size_t{256} << 20;  // and at least four frames

  // Once `cancel` is set, write() and finish() throw cancelled instead of waiting.
  //
  // `profiler` is told what the threads do. It may be null, and must outlive this object.
  explicit BackgroundWriter(std::unique_ptr<VideoWriter> writer, CancelFlag cancel = {},
                            Profiler* profiler = nullptr);
  ~BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  void write(RgbView frame);
  void finish();  // call this once; it waits until every frame is encoded, and then finishes the file
  void finish_whatever_happens() { cancel_ = {}, finish(); }  // the same, but nobody can cancel it
  // After finish(): how long the thread that passes frames to the encoder has worked, and finish() after it.
  double encoding_seconds() const { return encoding_seconds_; }

 private:
  struct Item {
    RgbFrame frame;  // used until it is prepared
    std::unique_ptr<VideoWriter::Ready> ready;
    size_t bytes = 0;  // size of the frame or of what was prepared from it
  };
  void prepare_frames();  // runs in each preparing thread
  void write_frames();
  void start();
  void stop();  // ends the threads and drops waiting frames
  void fail_with(std::exception_ptr error);
  bool full() const { return queue_.size() >= 4 && bytes_ >= kQueueBytes; }
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition condition);

  std::unique_ptr<VideoWriter> writer_;
  CancelFlag cancel_;
  Profiler* profiler_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  size_t claimed_ = 0;           // how many at the queue's front have been prepared or are being prepared
  size_t bytes_ = 0;             // size of the queue
  std::vector<RgbFrame> spare_;  // memory of frames that have been prepared
  bool busy_ = false, stop_ = false;
  double encoding_seconds_ = 0;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace tachy
