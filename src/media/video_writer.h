// Writes frames to a video or to pictures, by the name's ending:
//
//   clip.mp4        H.264, 4:2:0, BT.709, index in front (plays in browsers while it loads)
//   clip.webm       VP9, 4:2:0, BT.709
//   clip.gif        one palette for the clip, ordered dithering (keeps the frames in memory until finish)
//   still.png       one picture
//   out_%04d.png    a picture per frame, counted from 0
//   frames/         the same as frames/frame_%04d.png; also any name of a folder that exists
//
// Everything is written under a temporary name in the same folder, synced and renamed by finish(): the final
// name never shows half a file, and an old file of that name stays as it was until then. The same frames and
// options give the same bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "media/frame.h"

namespace tachy {

struct VideoOptions {
  double fps = 16;
  int crf = -1;                 // mp4 0..51 and webm 0..63, lower is better; -1 picks 16 (mp4) or 24 (webm)
  std::string comment;          // settings as JSON, embedded; read_comment() of metadata.h gives it back
  bool loop = true;             // gif: for ever, or once
  int threads = 1;              // of the encoder; the bytes may depend on it
  int64_t expected_frames = 0;  // if known: lets open() refuse what could only fail later
};

enum class VideoFormat { mp4, webm, gif, png, png_sequence };

// The format that a name asks for. Throws unsupported, listing the endings that work.
VideoFormat video_format(const std::filesystem::path& path);

class VideoWriter {
 public:
  // Throws io (with path and reason) when nothing can be written there, invalid_argument for sizes or options
  // that the format cannot hold, unsupported when this FFmpeg lacks the encoder.
  static std::unique_ptr<VideoWriter> open(const std::filesystem::path& path, int width, int height,
                                           const VideoOptions& options = {});

  // Without finish() (or after an error) the temporaries are removed and the final name is left alone.
  virtual ~VideoWriter() = default;
  VideoWriter(const VideoWriter&) = delete;
  VideoWriter& operator=(const VideoWriter&) = delete;

  void write(RgbView frame);  // of the size given to open()
  void finish();              // once; at least one frame must have been written
  int64_t frames_written() const { return frames_; }

 protected:
  VideoWriter(std::filesystem::path path, int width, int height, VideoOptions options)
      : path_(std::move(path)), width_(width), height_(height), options_(std::move(options)) {}
  virtual void write_frame(RgbView frame) = 0;  // frames_ is the index of this frame
  virtual void finish_file() = 0;

  std::filesystem::path path_;
  int width_ = 0, height_ = 0;
  VideoOptions options_;
  int64_t frames_ = 0;

 private:
  enum class State { open, finished, failed } state_ = State::open;
};

// One picture to a PNG file, with the same guarantees.
void write_png(const std::filesystem::path& path, RgbView image, const std::string& comment = {});

}  // namespace tachy
