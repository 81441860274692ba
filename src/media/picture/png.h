// PNG through libpng: encodes and decodes pictures in memory, and reads the comment that holds settings.
//
// The comment is a tEXt chunk (ASCII, known to every reader) or an iTXt chunk (UTF-8) with the keyword
// "Comment". All functions throw corrupt, with `name`, if the bytes are not a complete and sound PNG. Private
// to src/media.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "media/frame.h"

namespace tachy {

// quick: takes a fraction of the time for a somewhat larger file; the pixels are the same.
enum class PngEffort { usual, quick };
std::vector<uint8_t> encode_png(RgbView image, const std::string& comment,
                                PngEffort effort = PngEffort::usual);

// Returns 8-bit RGB as Pillow's convert("RGB") does: alpha is dropped, gray repeated, palettes looked up, 16
// bits cut to the upper 8; gamma and colour profiles are ignored. The caller has checked the header's size
// (image_header.h).
RgbFrame decode_png(std::span<const uint8_t> file, std::string_view name);

// Returns the first comment of the file, as UTF-8, or "". Nothing after it is read.
std::string png_comment(std::span<const uint8_t> file, std::string_view name);

}  // namespace tachy
