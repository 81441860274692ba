// Keeps frames of a video in a file, each compressed by itself, to be read again one by one. A long run keeps
// its finished windows in this way.
//
//   "tachyscope frames 1\n", then for each frame 4 bytes, little endian, and as many bytes of a PNG
//
// The file appears only when it is complete. A caller that keeps the result of made() can later tell whether
// the file has been replaced.
#pragma once

#include <functional>
#include <optional>

#include "base/sha256.h"
#include "media/files.h"
#include "media/video/video_writer.h"

namespace tachy {

struct FramesFile {
  int64_t frames = 0;
  uint64_t bytes = 0;
  std::string sha256;
};

class FramesWriter final : public VideoWriter {
 public:
  FramesWriter(const std::filesystem::path& path, int width, int height);
  const FramesFile& made() const { return made_; }  // valid after finish(), which syncs and renames the file

 protected:
  std::unique_ptr<Ready> prepare_frame(RgbView frame) override;
  void write_frame(Ready& frame) override;
  void finish_file() override;

 private:
  void add(std::span<const uint8_t> bytes);

  PartFile part_;
  Sha256 hash_;
  FramesFile made_;
};

// Says whether a file begins as a frames file does.
bool is_frames_file(const std::filesystem::path& path);

// Throws not_found, io or corrupt, with the path, unless the file exists with that many bytes.
void check_frames_file(const std::filesystem::path& path, const FramesFile& expected);

// Reads the frames in order; all must have this size. Only at the end is it known whether the file can be
// trusted: throws corrupt, with the path, if it is damaged or not the expected one.
void read_frames(const std::filesystem::path& path, const FramesFile& expected, int width, int height,
                 const std::function<void(RgbView)>& frame);

}  // namespace tachy
