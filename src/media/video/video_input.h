// Opens a container so that it can reach neither other files nor the network. Private to src/media.
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

// The accepted kinds of files: names of libavformat and libavcodec, separated by commas, and a common name.
struct Allowed {
  const char* containers;
  const char* decoders;
  const char* what;
  Wanted wanted;
};
extern const Allowed kVideos;

// Throws not_found, io or corrupt (also for a container that is not allowed). If `source` is given, it is
// read instead of the file and must outlive the result.
InputPtr open_input(const std::filesystem::path& path, const Allowed& allowed = kVideos,
                    AVIOContext* source = nullptr);

// Finds out what the streams are, within the limits of `max_pixels` in a frame. Throws corrupt.
void find_streams(AVFormatContext& input, const std::filesystem::path& path,
                  int64_t max_pixels = kMaxImagePixels);

// Reads the next packet of one stream. Returns 0, AVERROR_EOF at the end, or an error.
int next_packet(AVFormatContext& input, const AVStream& stream, AVPacket& packet);

// Returns how to turn the frames, as in EXIF: 1 (upright) to 8, or 0 for an angle that is not a multiple of
// 90 degrees. This comes from the bytes of a display matrix, or from the container.
int orientation_in(std::span<const uint8_t> matrix);
int orientation_of(const AVFormatContext& input, const AVStream& stream, const std::filesystem::path& path);

// Returns the "comment" tag of a container, or an empty text.
std::string comment_of(const AVFormatContext& input);

}  // namespace tachy::av
