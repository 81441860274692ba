// What a picture's header says, read without decoding:
// kind, size, orientation, and whether the file is whole.
//
//   PNG   IHDR (width, height)
//   JPEG  segments FF xx length … up to the scan: SOFn (size), APP1 "Exif" (tag 0x0112, orientation 1..8);
//         then EOI
//   WebP  RIFF size, then VP8X, VP8L or VP8 (size)
//
// FFmpeg's decoders of JPEG and WebP conceal what is missing; a truncated picture must be an error, so that
// is checked here. libpng reports it by itself. Private to src/media.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tachy {

enum class ImageKind { png, jpeg, webp };

struct ImageHeader {
  ImageKind kind = ImageKind::png;
  int width = 0, height = 0;  // as stored, before turning
  int orientation = 1;        // EXIF: 1 upright … 8; 5 to 8 swap width and height
};

// Throws unsupported (another kind of file) or corrupt (damaged, or larger than frame.h's limits).
// `whole`: also check that a JPEG or WebP goes on to its end.
ImageHeader read_image_header(std::span<const uint8_t> file, std::string_view name, bool whole);

}  // namespace tachy
