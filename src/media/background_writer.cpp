#include "media/background_writer.h"

#include <cstring>

#include "base/error.h"

namespace tachy {

BackgroundWriter::BackgroundWriter(std::unique_ptr<VideoWriter> writer) : writer_(std::move(writer)) {
  thread_ = std::thread([this] { run(); });
}

BackgroundWriter::~BackgroundWriter() { stop(); }

void BackgroundWriter::write(RgbView frame) {
  Frame copy{{}, frame.width, frame.height};
  const auto row_bytes = static_cast<size_t>(frame.width) * 3;
  copy.rgb.resize(row_bytes * static_cast<size_t>(frame.height));
  for (int y = 0; y < frame.height; ++y)
    std::memcpy(copy.rgb.data() + static_cast<size_t>(y) * row_bytes, frame.row(y), row_bytes);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !full() || error_; });
  if (error_) std::rethrow_exception(error_);
  bytes_ += copy.rgb.size();
  queue_.push_back(std::move(copy));
  changed_.notify_all();
}

void BackgroundWriter::finish() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return error_ || (queue_.empty() && !busy_); });
    if (error_) std::rethrow_exception(error_);
  }
  stop();
  writer_->finish();
}

void BackgroundWriter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const Frame frame = std::move(queue_.front());
    queue_.pop_front();
    bytes_ -= frame.rgb.size();
    busy_ = true;
    changed_.notify_all();
    lock.unlock();
    std::exception_ptr error;
    try {
      writer_->write({frame.rgb.data(), frame.width, frame.height, int64_t{frame.width} * 3});
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    error_ = error;
    changed_.notify_all();
    if (error) return;
  }
}

void BackgroundWriter::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace tachy
