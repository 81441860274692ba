// Writes frames to a video or to pictures. The ending of the name decides which:
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
// Unless the output is streamed, it is written under a temporary name in the same folder, synced, and renamed
// by finish(). So the final name never belongs to half a file, and until then an old file of that name does
// not change. The same frames and options give the same bytes, because the number of encoder threads depends
// on the size of the picture and not on the machine.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/stop_flags.h"
#include "media/frame.h"

namespace tachy {

struct VideoOptions {
  double fps = 16;
  // 0 to 51 for mp4 and 0 to 63 for webm, where lower is better; -1 means 16 (mp4) or 24 (webm). 0 is
  // lossless: decoded frames have the same bits (H.264 High 4:4:4 or VP9 profile 1, in RGB).
  int crf = -1;
  std::string comment;          // settings as JSON, embedded; read_comment() of metadata.h reads it
  bool loop = true;             // for gif: whether it repeats for ever
  std::string speed;            // for mp4 and webm, one of kEncodeSpeeds; if empty, kEncodeSpeedDefault
  int threads = 0;              // of the encoder, by the picture's size if 0; may change the bytes
  int64_t expected_frames = 0;  // if known, open() can refuse a video that could only fail later
  // For mp4: the file itself grows by half a second at a time while frames come, and can be played meanwhile.
  // After an error, the written part stays.
  bool streamed = false;
  // Checked while an encoder catches up: when it is true, write() and finish() throw cancelled.
  CancelFlag cancel = {};
  // One channel that begins with the first frame, for mp4 and webm. It is not needed after open().
  std::span<const float> sound = {};
  int sound_rate = 16000;
};

// x264's presets; for VP9 the closest steps of its own scale. The default was chosen by measurement
// (bench/notes/video_files.md): it takes a third of medium's work, with the same size and likeness.
inline constexpr std::string_view kEncodeSpeeds[] = {"ultrafast", "superfast", "veryfast", "faster",  "fast",
                                                     "medium",    "slow",      "slower",   "veryslow"};
inline constexpr std::string_view kEncodeSpeedDefault = "veryfast";

enum class VideoFormat { mp4, webm, gif, png, png_sequence };

// Returns the format for a name. Throws unsupported with the endings that work.
VideoFormat video_format(const std::filesystem::path& path);

class VideoWriter {
 public:
  // Throws io (with the path and the reason) if nothing can be written there, invalid_argument for sizes or
  // options that the format does not allow, and unsupported if this FFmpeg lacks the encoder.
  static std::unique_ptr<VideoWriter> open(const std::filesystem::path& path, int width, int height,
                                           const VideoOptions& options = {});

  // Without finish(), or after an error, this removes the temporary files and leaves a file with the final
  // name alone.
  virtual ~VideoWriter() = default;
  VideoWriter(const VideoWriter&) = delete;
  VideoWriter& operator=(const VideoWriter&) = delete;

  // A frame after all work that depends on no other frame: converted colours, or a compressed picture.
  class Ready {
   public:
    virtual ~Ready() = default;
    virtual size_t bytes() const = 0;
  };

  void write(RgbView frame);  // the frame must have the size given to open()
  void finish();              // call once; at least one frame must have been written
  // The two halves of write(). Several threads may run the first at the same time; the second must follow the
  // order of the frames.
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

// Writes one picture to a PNG file, which also appears only when it is complete.
void write_png(const std::filesystem::path& path, RgbView image, const std::string& comment = {});

}  // namespace tachy
