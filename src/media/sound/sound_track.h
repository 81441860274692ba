// The sound track of a film: one channel at 48 kHz, AAC in mp4 and Opus in webm. Private to src/media.
//
// The whole sound is known when the film begins, so it is encoded at once, and libavformat keeps its packets
// until the matching pictures come (43 MB for an hour). Encoders add samples at the beginning; both
// containers say how many, so that players remove them.
#pragma once

#include <span>
#include <string>

#include "media/video/libav.h"

namespace tachy::av {

class SoundTrack {
 public:
  // Adds a stream to a file whose header has not been written yet. `name` is the file's name for errors.
  SoundTrack(AVFormatContext& file, const std::string& encoder, const std::string& name);
  void write(std::span<const float> samples, int rate);  // call this once, after the header

 private:
  void drain();

  AVFormatContext& file_;
  std::string name_;
  AVStream* stream_ = nullptr;
  CodecPtr codec_;
  PacketPtr packet_;
};

}  // namespace tachy::av
