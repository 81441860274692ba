// Opens a container with every door to other files and the network shut. Private to src/media.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "media/file_kind.h"
#include "media/video/libav.h"

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
  Wanted wanted;
};
extern const Allowed kVideos;

// Throws not_found, io or corrupt (also for a container that is not allowed). `source`, which must live as long, is read in the place
// of the file.
InputPtr open_input(const std::filesystem::path& path, const Allowed& allowed = kVideos,
                    AVIOContext* source = nullptr);

// The next packet of one stream: 0, AVERROR_EOF at the end, or what went wrong.
int next_packet(AVFormatContext& input, const AVStream& stream, AVPacket& packet);

// How the frames are to be turned, as EXIF counts: 1 (upright) to 8, or 0 for an angle that is no right one. By the bytes of a
// display matrix, or by what the container says.
int orientation_in(std::span<const uint8_t> matrix);
int orientation_of(const AVFormatContext& input, const AVStream& stream, const std::filesystem::path& path);

// The "comment" tag of a container, or empty.
std::string comment_of(const AVFormatContext& input);

}  // namespace tachy::av
