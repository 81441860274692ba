// PNG through libpng: pictures as bytes, pixels from bytes, and the comment that settings are kept in.
//
// The comment is a tEXt chunk (ASCII, known to every reader) or an iTXt chunk (UTF-8) with the keyword
// "Comment". Everything throws corrupt, with `name`, where the bytes are not a whole and sound PNG.
// Private to src/media.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "media/frame.h"

namespace tachy {

enum class PngEffort { usual, quick };  // quick: a fraction of the time, somewhat larger; the same pixels
std::vector<uint8_t> encode_png(RgbView image, const std::string& comment,
                                PngEffort effort = PngEffort::usual);

// 8-bit RGB as Pillow's convert("RGB") makes it: alpha dropped, gray repeated, palettes looked up, of 16 bits
// the upper 8; gamma and colour profiles ignored. The caller has checked the header's size (image_header.h).
RgbFrame decode_png(std::span<const uint8_t> file, std::string_view name);

// The first comment of the file, as UTF-8, or "". What lies behind it is not read.
std::string png_comment(std::span<const uint8_t> file, std::string_view name);

}  // namespace tachy
