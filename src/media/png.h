// PNG beyond the decoder: an encoder for RGB frames with
// an embedded comment, and a walk over a file's chunks.
//
// A chunk is length (4, big-endian), type (4), data, CRC-32 of type and data (4); W3C PNG specification.
// Private to src/media.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "media/frame.h"
#include "media/libav.h"

namespace tachy {

class PngEncoder {
 public:
  PngEncoder(int width, int height);
  std::vector<uint8_t> encode(RgbView image, const std::string& comment);

 private:
  av::CodecPtr codec_;
  av::FramePtr picture_;
  av::PacketPtr packet_;
};

// Calls `visit(type, data)` for every chunk up to IEND; throws corrupt (with `name` and the offset) when the
// signature, a length or a CRC is wrong or IEND is missing.
void for_each_png_chunk(std::span<const uint8_t> file, std::string_view name,
                        const std::function<void(std::string_view, std::span<const uint8_t>)>& visit);

// Throws corrupt unless the file is whole and its compressed pixels are as many as the header says: decoders
// fill what is missing with whatever was in memory.
void check_png_whole(std::span<const uint8_t> file, std::string_view name);

// The text of a tEXt or uncompressed iTXt chunk when its keyword is "Comment"; else empty.
std::string png_comment(std::string_view type, std::span<const uint8_t> data);

}  // namespace tachy
