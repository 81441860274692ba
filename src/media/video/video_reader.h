// Reads RGB frames in the order in which they are shown, from a video (mp4, mov, mkv, webm, avi, gif), a
// folder of pictures, a pattern such as out_%04d.png or one picture. Like ffmpeg, it turns them by right
// angles and mirrors them as the file says (the display matrix of mp4 and mov, the pose of mkv, a picture's
// EXIF).
//
// Files are treated as hostile: only listed containers and codecs are tried, a file cannot make the reader
// open another one, and sizes and the number of frames are limited.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "media/frame.h"

namespace tachy {

struct VideoInfo {
  int width = 0, height = 0;  // after turning
  double fps = 0;             // average; 0 if the file does not say (pictures)
  int64_t frames = 0;         // stated by the container; 0 if it does not say, so that they must be counted
  std::string codec;          // "h264", "vp9", "gif", "png" …
  std::string pixel_format;   // "yuv420p" …
  std::string color_space;    // "bt709" …; "unknown" if the file does not say
  std::string comment;
};

struct ReadVideoOptions {
  int64_t max_frames = 100'000;          // read() stops there without an error
  int64_t max_pixels = kMaxImagePixels;  // in one frame
  int64_t max_bytes = int64_t(8) << 30;  // in all frames that read_video() returns
  int threads = 1;
};

class VideoReader {
 public:
  static std::unique_ptr<VideoReader> open(const std::filesystem::path& path,
                                           const ReadVideoOptions& options = {});
  virtual ~VideoReader() = default;
  const VideoInfo& info() const { return info_; }
  virtual bool read(RgbFrame& frame) = 0;  // returns false after the last frame; throws corrupt

 protected:
  VideoInfo info_;
};

// Returns the files whose content a video is: its own, or those of its pictures in order.
std::vector<std::filesystem::path> files_of_video(const std::filesystem::path& path);

// Reads all frames at once.
std::vector<RgbFrame> read_video(const std::filesystem::path& path, const ReadVideoOptions& options = {},
                                 VideoInfo* info = nullptr);

}  // namespace tachy
