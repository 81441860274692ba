#include "serve/recording.h"

#include <system_error>

#include "base/error.h"
#include "base/last_words.h"
#include "base/os/folder.h"
#include "http/access.h"

namespace tachy::serve {
namespace {

namespace fs = std::filesystem;

fs::path make_folder() {
  std::error_code ec;
  std::string name = (fs::temp_directory_path(ec) / "tachyscope-page-XXXXXX").string();
  if (!ec) ec = os::make_unique_folder(name);
  check(!ec, ErrorCode::io, "{}: cannot make a folder there: {}", name, ec.message());
  return name;
}

void remove_file_and_folder(const fs::path& file) noexcept {
  std::error_code ec;
  fs::remove(file, ec);
  forget_temporary(file.native());
  fs::remove(file.parent_path(), ec);
  forget_temporary(file.parent_path().native());
}

}  // namespace

RecordedFile::~RecordedFile() {
  if (!path.empty()) remove_file_and_folder(path);
}

Recording::Recording(int width, int height, double fps, int64_t most_frames, const std::atomic<bool>* cancel)
    : folder_(make_folder()), most_frames_(most_frames), file_(std::make_shared<RecordedFile>()) {
  file_->id = tachy::http::random_token();
  file_->path = folder_ / "world.mp4";
  // If a signal ends the process, file and folder are removed in this order.
  note_temporary(file_->path.native());
  note_temporary(folder_.native());
  writer_ = std::make_unique<BackgroundWriter>(
      VideoWriter::open(file_->path, width, height, {.fps = fps, .speed = "ultrafast", .cancel = cancel}),
      cancel);
}

Recording::~Recording() { writer_.reset(); }  // the temporary file must be removed before the folder

void Recording::write(RgbView frame) {
  if (full()) return;
  writer_->write(frame);
  ++frames_;
}

std::shared_ptr<const RecordedFile> Recording::finish() {
  if (frames_ == 0) return nullptr;
  writer_->finish();
  file_->frames = frames_;
  file_->bytes = fs::file_size(file_->path);
  return file_;
}

}  // namespace tachy::serve
