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

// Throws not_found, io, unsupported (no container that we take) or corrupt.
InputPtr open_input(const std::filesystem::path& path);

// The "comment" tag of a container, or empty.
std::string comment_of(const AVFormatContext& input);

extern const char* const kDecoders;  // the codecs that are tried, separated by commas

}  // namespace tachy::av
