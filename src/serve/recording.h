// A visit's frames as an mp4 for download. The file has a name of ours in a folder of ours; visitors know it
// only by an id.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "media/video/background_writer.h"

namespace tachy::serve {

// A finished file, which is removed when nobody holds it any more.
struct RecordedFile {
  std::string id;
  std::filesystem::path path;
  int64_t frames = 0;
  uint64_t bytes = 0;
  RecordedFile() = default;
  RecordedFile(const RecordedFile&) = delete;
  ~RecordedFile();
};

// Keeps the last recording for the server to hand out; may be used by any thread.
class RecordingShelf {
 public:
  void put(std::shared_ptr<const RecordedFile> file) {
    const std::lock_guard lock(mutex_);
    file_.swap(file);
  }
  std::shared_ptr<const RecordedFile> find(std::string_view id) const {
    const std::lock_guard lock(mutex_);
    return file_ && !id.empty() && file_->id == id ? file_ : nullptr;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const RecordedFile> file_;
};

// A recording belongs to one thread. If it is not finished, it leaves nothing.
class Recording {
 public:
  Recording(int width, int height, double fps, int64_t most_frames, const std::atomic<bool>* cancel);
  ~Recording();
  bool full() const { return frames_ >= most_frames_; }
  int64_t frames() const { return frames_; }
  void write(RgbView frame);
  std::shared_ptr<const RecordedFile> finish();  // call it once; null if no frame came

 private:
  std::filesystem::path folder_;
  int64_t frames_ = 0, most_frames_;
  std::unique_ptr<BackgroundWriter> writer_;
  std::shared_ptr<RecordedFile> file_;
};

}  // namespace tachy::serve
