// Encodes and decodes PNGs in memory with libpng, and reads the comment that contains settings.
//
// The comment is a tEXt chunk (ASCII, known to every reader) or an iTXt chunk (UTF-8) with the keyword
// "Comment". All functions throw corrupt, with `name`, if the bytes are not a complete and valid PNG. Private
// to src/media.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "media/frame.h"

namespace tachy {

// `quick` takes a fraction of the time and makes a somewhat larger file with the same pixels.
enum class PngEffort { usual, quick };
std::vector<uint8_t> encode_png(RgbView image, const std::string& comment,
                                PngEffort effort = PngEffort::usual);

// Returns 8-bit RGB as Pillow's convert("RGB") does: alpha is dropped, gray is repeated, palettes are looked
// up, and of 16 bits the upper 8 are kept. Gamma and colour profiles are ignored. The caller has checked the
// size in the header (image_header.h).
RgbFrame decode_png(std::span<const uint8_t> file, std::string_view name);

// Returns the file's first comment as UTF-8, or "". It reads no further.
std::string png_comment(std::span<const uint8_t> file, std::string_view name);

}  // namespace tachy
