#include "media/video/background_writer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace tachy {
namespace {

constexpr size_t kSpareFrames = 4;
constexpr auto kCancelPoll = std::chrono::milliseconds(20);

// The machine may determine this number, because the result does not depend on it.
int preparing_threads() { return std::clamp(available_processors() / 2, 1, 6); }

}  // namespace

BackgroundWriter::BackgroundWriter(std::unique_ptr<VideoWriter> writer, CancelFlag cancel, Profiler* profiler)
    : writer_(std::move(writer)), cancel_(cancel), profiler_(profiler) {
  try {
    start();
  } catch (const std::system_error& e) {
    stop();
    fail(ErrorCode::out_of_memory,
         "cannot start a thread for the encoder: {} (ulimit -u and -v limit threads)", e.what());
  }
}

BackgroundWriter::~BackgroundWriter() { stop(); }

void BackgroundWriter::start() {
  threads_.emplace_back([this] { write_frames(); });
  for (int i = 0; i < preparing_threads(); ++i) threads_.emplace_back([this] { prepare_frames(); });
}

// A signal handler cannot notify, so a waiting thread checks the flag from time to time.
template <class Condition>
void BackgroundWriter::wait(std::unique_lock<std::mutex>& lock, Condition condition) {
  while (!error_ && !condition()) {
    cancel_.throw_if_set();
    changed_.wait_for(lock, kCancelPoll);
  }
  if (error_) std::rethrow_exception(error_);
}

void BackgroundWriter::write(RgbView frame) {
  RgbFrame copy;
  {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return !full(); });
    if (!spare_.empty()) copy = std::move(spare_.back()), spare_.pop_back();
  }
  const auto row_bytes = static_cast<size_t>(frame.width) * 3;
  copy.width = frame.width, copy.height = frame.height;
  const size_t all = row_bytes * static_cast<size_t>(frame.height);
  if (frame.stride_bytes == static_cast<int64_t>(row_bytes)) {  // new memory is then written once
    copy.rgb.assign(frame.row(0), frame.row(0) + all);
  } else {
    copy.rgb.resize(all);
    for (int y = 0; y < frame.height; ++y) std::memcpy(copy.row(y), frame.row(y), row_bytes);
  }
  std::lock_guard lock(mutex_);
  const size_t bytes = copy.rgb.size();
  queue_.push_back({std::move(copy), nullptr, bytes});
  bytes_ += bytes;
  changed_.notify_all();
}

void BackgroundWriter::finish() {
  {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return queue_.empty() && !busy_; });
  }
  stop();
  const double begin = monotonic_seconds();
  writer_->finish();
  encoding_seconds_ += monotonic_seconds() - begin;
}

void BackgroundWriter::prepare_frames() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || claimed_ < queue_.size(); });
    if (stop_) return;
    // The item stays in place, because only the ends of the queue change, and this one is not ready.
    Item& item = queue_[claimed_++];
    lock.unlock();
    std::unique_ptr<VideoWriter::Ready> ready;
    std::exception_ptr error;
    try {
      const ProfileRange range(profiler_, "encode video", ProfileKind::output);
      ready = writer_->prepare(item.frame.view());
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) return fail_with(error);
    bytes_ += ready->bytes() - item.bytes;
    item.bytes = ready->bytes();
    if (spare_.size() < kSpareFrames)
      spare_.push_back(std::move(item.frame));
    else
      item.frame = {};
    item.ready = std::move(ready);
    changed_.notify_all();
  }
}

void BackgroundWriter::write_frames() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || (!queue_.empty() && queue_.front().ready); });
    if (stop_) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    --claimed_;
    bytes_ -= item.bytes;
    busy_ = true;
    changed_.notify_all();
    lock.unlock();
    std::exception_ptr error;
    const double begin = monotonic_seconds();
    try {
      const ProfileRange range(profiler_, "encode video", ProfileKind::output);
      writer_->write(std::move(item.ready));
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    encoding_seconds_ += monotonic_seconds() - begin;
    busy_ = false;
    if (error) return fail_with(error);
    changed_.notify_all();
  }
}

// Call this with the lock held. The other threads also end, because their work would be useless.
void BackgroundWriter::fail_with(std::exception_ptr error) {
  if (!error_) error_ = error;
  stop_ = true;
  changed_.notify_all();
}

void BackgroundWriter::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

}  // namespace tachy
