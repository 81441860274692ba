// Opens a container with every door to other files and the network shut. Private to src/media.
#pragma once

#include <filesystem>
#include <memory>

#include "media/libav.h"

namespace tachy::av {

struct CloseInput {
  void operator()(AVFormatContext* p) const { avformat_close_input(&p); }
};
using InputPtr = std::unique_ptr<AVFormatContext, CloseInput>;

// What may be in a file: libavformat's and libavcodec's names, separated by commas, and what to call it all.
struct Allowed {
  const char* containers;
  const char* decoders;
  const char* what;
};
extern const Allowed kVideos;

// Throws not_found, io or corrupt (also for a container that is not allowed).
InputPtr open_input(const std::filesystem::path& path, const Allowed& allowed = kVideos);

// The next packet of one stream; false at the end. Throws corrupt, naming the file and how far its reader had come.
bool next_packet(AVFormatContext& input, const AVStream& stream, AVPacket& packet, const std::string& name,
                 const std::string& place);

// The "comment" tag of a container, or empty.
std::string comment_of(const AVFormatContext& input);

}  // namespace tachy::av
