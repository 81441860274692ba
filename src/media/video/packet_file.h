// An mp4 or webm file of packets that are encoded already, with a sound track of their own or a new one. It gets its
// name when it is complete. Private to src/media.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/stop_flags.h"
#include "media/files.h"
#include "media/sound/sound_track.h"
#include "media/video/libav.h"

namespace tachy::av {

class PacketFile {
 public:
  // The name's ending tells the container.
  PacketFile(const std::filesystem::path& path, const std::string& comment, CancelFlag cancel);
  ~PacketFile();
  PacketFile(const PacketFile&) = delete;
  PacketFile& operator=(const PacketFile&) = delete;

  // Adds a stream of the same codec, and returns its index. Call this before begin().
  int add_like(const AVStream& stream);
  // Ends the header. `sound` has one channel and becomes a new track, unless it is empty.
  void begin(std::span<const float> sound = {}, int sound_rate = 0);
  // Writes a packet whose times are in `time_base`. Packets of a stream come in the order of decoding.
  void write(AVPacket& packet, AVRational time_base, int stream);
  void finish();  // writes the index, syncs, renames

 private:
  [[noreturn]] void fail_write(const char* what, int code) const;

  PartFile part_;
  CancelFlag cancel_;
  bool mp4_ = true;
  AVFormatContext* format_ = nullptr;
  bool begun_ = false;  // the header has been written, but not the trailer
  std::unique_ptr<SoundTrack> sound_;
};

}  // namespace tachy::av
