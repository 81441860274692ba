// Some frames of a video in a file as they are, to be read again one by one: what a long run keeps of its finished windows.
//
//   "tachyscope frames 1\n", then of each frame 4 bytes, little endian, and so many of a PNG
//
// The file appears whole or not at all. Who keeps what made() says of it beside it finds out when it is another one's.
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
  const FramesFile& made() const { return made_; }  // after finish(), which syncs and renames it

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

// Whether it begins as such a file does.
bool is_frames_file(const std::filesystem::path& path);

// Throws not_found, io or corrupt, with the path, unless it is there and of that many bytes.
void check_frames_file(const std::filesystem::path& path, const FramesFile& expected);

// Its frames in order, which must be of this size. What is not to be trusted is known at the end: throws corrupt, with the path,
// where the file is damaged or not the expected one.
void read_frames(const std::filesystem::path& path, const FramesFile& expected, int width, int height,
                 const std::function<void(RgbView)>& frame);

}  // namespace tachy
