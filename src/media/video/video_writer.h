// Writes frames to a video or to pictures; the ending of the name decides:
//
//   clip.mp4        H.264, 4:2:0, BT.709, index in front (plays in browsers while it loads)
//   clip.webm       VP9, 4:2:0, BT.709
//   clip.gif        one palette for the clip, ordered dithering (keeps the frames in memory until finish)
//   still.png       one picture
//   out_%04d.png    a picture per frame, counted from 0
//   frames/         the same as frames/frame_%04d.png; also any name of a folder that exists
//
//   -               mp4 to standard output, streamed
//
// Everything that is not streamed is written under a temporary name in the same folder, synced and renamed by
// finish(). So the final name never belongs to half a file, and an old file of that name stays as it was
// until then. The same frames and options give the same bytes: the picture's size determines the number of
// encoder threads, not the machine.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "media/frame.h"

namespace tachy {

struct VideoOptions {
  double fps = 16;
  // mp4: 0 to 51, webm: 0 to 63, lower is better; -1 picks 16 (mp4) or 24 (webm). 0 is lossless: the decoded
  // frames have the same bits (H.264 High 4:4:4 or VP9 profile 1, in RGB).
  int crf = -1;
  std::string comment;          // settings as JSON, embedded; read_comment() of metadata.h reads it
  bool loop = true;             // gif: repeats for ever, or plays once
  std::string speed;            // mp4 and webm: one of kEncodeSpeeds; empty: kEncodeSpeedDefault
  int threads = 0;              // for the encoder, 0: by the picture's size; the bytes may depend on it
  int64_t expected_frames = 0;  // if known: lets open() refuse a video that could only fail later
  // mp4: the file itself grows as frames come, half a second at a time, and can be played meanwhile; after an
  // error the written part stays.
  bool streamed = false;
  // Checked while an encoder catches up: once true, write() and finish() throw cancelled.
  const std::atomic<bool>* cancel = nullptr;
  // One channel, beginning with the first frame, for mp4 and webm; open() no longer needs it when it returns.
  std::span<const float> sound = {};
  int sound_rate = 16000;
};

// x264's presets; for VP9 the closest steps of its own scale. The default was chosen by measurement
// (bench/notes/video_files.md): it takes a third of medium's work, with the same size and likeness.
inline constexpr std::string_view kEncodeSpeeds[] = {"ultrafast", "superfast", "veryfast", "faster",  "fast",
                                                     "medium",    "slow",      "slower",   "veryslow"};
inline constexpr std::string_view kEncodeSpeedDefault = "veryfast";

enum class VideoFormat { mp4, webm, gif, png, png_sequence };

// The format that a name asks for. Throws unsupported, listing the endings that work.
VideoFormat video_format(const std::filesystem::path& path);

class VideoWriter {
 public:
  // Throws io (with path and reason) when nothing can be written there, invalid_argument for sizes or options
  // that the format cannot hold, unsupported when this FFmpeg lacks the encoder.
  static std::unique_ptr<VideoWriter> open(const std::filesystem::path& path, int width, int height,
                                           const VideoOptions& options = {});

  // Without finish() (or after an error) the temporary files are removed and the file with the final name is
  // left alone.
  virtual ~VideoWriter() = default;
  VideoWriter(const VideoWriter&) = delete;
  VideoWriter& operator=(const VideoWriter&) = delete;

  // A frame after all work that needs no other frame: converted colours, or a compressed picture.
  class Ready {
   public:
    virtual ~Ready() = default;
    virtual size_t bytes() const = 0;
  };

  void write(RgbView frame);  // the frame must have the size given to open()
  void finish();              // call once; at least one frame must have been written
  // write() in two halves: any threads may run the first, also at the same time; the second must follow the
  // frames' order.
  std::unique_ptr<Ready> prepare(RgbView frame);
  void write(std::unique_ptr<Ready> frame);
  int64_t frames_written() const { return frames_; }

 protected:
  VideoWriter(std::filesystem::path path, int width, int height, VideoOptions options)
      : path_(std::move(path)), width_(width), height_(height), options_(std::move(options)) {}
  virtual std::unique_ptr<Ready> prepare_frame(RgbView frame) = 0;
  virtual void write_frame(Ready& frame) = 0;  // frames_ is the index of this frame
  virtual void finish_file() = 0;
  void throw_if_cancelled() const;

  std::filesystem::path path_;
  int width_ = 0, height_ = 0;
  VideoOptions options_;
  int64_t frames_ = 0;

 private:
  void check_open(const char* what) const;
  enum class State { open, finished, failed } state_ = State::open;
};

// Writes one picture to a PNG file, with the same guarantees.
void write_png(const std::filesystem::path& path, RgbView image, const std::string& comment = {});

}  // namespace tachy
