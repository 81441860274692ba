#include "media/picture/png_writer.h"

#include <system_error>

#include "base/error.h"
#include "base/last_words.h"
#include "base/log.h"

namespace tachy {
namespace fs = std::filesystem;

PngWriter::PngWriter(fs::path path, int width, int height, VideoOptions options,
                     std::optional<NamePattern> pattern)
    : VideoWriter(std::move(path), width, height, std::move(options)), pattern_(std::move(pattern)) {
  if (pattern_ && pattern_->whole_folder) make_folder();
  // Fails now rather than after an hour of computing.
  PartFile probe(name_of(0));
}

PngWriter::~PngWriter() {
  parts_.clear();
  std::error_code ec;
  if (!made_folder_) return;
  if (!published_) fs::remove(pattern_->folder, ec);  // removes it only if it is empty
  forget_temporary(pattern_->folder.native());
}

std::unique_ptr<VideoWriter::Ready> PngWriter::prepare_frame(RgbView frame) {
  auto ready = std::make_unique<Encoded>();
  ready->png = encode_png(frame, options_.comment);
  return ready;
}

void PngWriter::write_frame(Ready& frame) {
  require(pattern_ || frames_ == 0,
          "{}: this name holds one picture; for more write out_%04d.png or a folder/", path_.string());
  PartFile part(name_of(frames_));
  part.write(static_cast<Encoded&>(frame).png);
  part.seal();
  parts_.push_back(std::move(part));
}

void PngWriter::finish_file() {
  published_ = true;
  for (PartFile& part : parts_) part.publish();
  sync_folder(folder_of(name_of(0)));
  std::error_code ec;
  if (pattern_ && fs::exists(name_of(frames_), ec))
    warn("{}: older pictures follow the {} just written", name_of(frames_).string(), frames_);
}

void PngWriter::make_folder() {
  std::error_code ec;
  made_folder_ = fs::create_directory(pattern_->folder, ec);
  check(!ec, ErrorCode::io, "{}: cannot make the folder: {}", pattern_->folder.string(), ec.message());
  if (made_folder_) note_temporary(pattern_->folder.native());
}

}  // namespace tachy
