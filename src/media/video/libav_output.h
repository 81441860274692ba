// One encoder and one muxer that write a PartFile, a growing file, or standard output. The writers of mp4,
// webm and gif share this. Private to src/media.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/stop_flags.h"
#include "media/files.h"
#include "media/sound/sound_track.h"
#include "media/video/libav.h"

namespace tachy::av {

struct OutputSetup {
  std::filesystem::path path;
  std::string muxer, encoder, encoder_hint;  // the hint completes "this FFmpeg has no encoder X; …"
  AVPixelFormat format = AV_PIX_FMT_NONE;
  int width = 0, height = 0, threads = 1;
  AVRational rate{16, 1};
  bool video_color = false;  // tag as BT.709 with limited range; otherwise as RGB
  Options encoder_options, muxer_options;
  std::string comment;
  std::string sound_encoder;  // for the sound track, if there is one
  std::span<const float> sound;
  int sound_rate = 0;
  bool streamed = false;   // writes straight to `path`, where "-" is standard output
  CancelFlag cancel = {};  // see VideoOptions
};

class Output {
 public:
  explicit Output(const OutputSetup& setup);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  AVFrame& picture();  // returns a writable picture to be filled for send()
  void send(AVFrame& picture, int64_t index);
  void close();    // drains, writes the index, closes; the file still has its temporary name
  void publish();  // gives the file its name, unless it already has it
  PartFile& part() { return *part_; }  // only for files that are not streamed

 private:
  void drain();
  [[noreturn]] void fail_write(const char* what, int code);

  std::string name_;              // for messages
  std::optional<PartFile> part_;  // empty if the output is streamed
  CancelFlag cancel_;
  AVFormatContext* format_ = nullptr;
  bool begun_ = false;  // the header has been written, but not the trailer
  AVStream* stream_ = nullptr;
  CodecPtr codec_;
  std::unique_ptr<SoundTrack> sound_;
  FramePtr picture_;
  PacketPtr packet_;
};

}  // namespace tachy::av
