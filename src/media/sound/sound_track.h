// The sound track of a film: one channel at 48 kHz, AAC in mp4 and Opus in webm. Private to src/media.
//
// The whole sound is known when the film begins, so it is encoded in a thread of its own, while the pictures are still
// being made. libavformat keeps its packets until the matching pictures come (43 MB for an hour). Encoders add samples at
// the beginning; both containers say how many, so that players remove them.
#pragma once

#include <atomic>
#include <future>
#include <span>
#include <string>
#include <vector>

#include "media/video/libav.h"

namespace tachy::av {

class SoundTrack {
 public:
  // Adds a stream to a file whose header has not been written yet. `name` is the file's name for errors.
  SoundTrack(AVFormatContext& file, const std::string& encoder, const std::string& name);
  ~SoundTrack();
  SoundTrack(const SoundTrack&) = delete;
  SoundTrack& operator=(const SoundTrack&) = delete;

  void encode(std::span<const float> samples, int rate);  // begins to encode; call this once
  // Waits for the encoder and hands its packets to the file, whose header must have been written. Later calls do nothing.
  // Throws what went wrong in the encoder, too.
  void write();

 private:
  std::vector<PacketPtr> packets_of(std::vector<float> sound);
  void drain(std::vector<PacketPtr>& packets);

  AVFormatContext& file_;
  std::string name_;
  AVStream* stream_ = nullptr;
  CodecPtr codec_;
  std::atomic<bool> stop_ = false;
  std::future<std::vector<PacketPtr>>
      packets_;  // its destructor waits for the thread, which uses the members above
};

}  // namespace tachy::av
