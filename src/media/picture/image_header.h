// Reads a picture's header without decoding the picture: kind, size, orientation, and whether the file is
// whole.
//
//   PNG   IHDR (width, height), eXIf and texts (orientation), acTL (animated)
//   JPEG  segments FF xx length … up to the scan: SOFn (size), APP1 "Exif" and XMP (orientation); then EOI
//   WebP  RIFF size, then VP8X, VP8L or VP8 (size), EXIF and XMP (orientation)
//   GIF   width, height, and whether a second picture follows the first
//
// FFmpeg's decoders of JPEG and WebP conceal missing data. A truncated picture must be an error, so that is
// checked here. libpng reports it by itself. Private to src/media.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tachy {

enum class ImageKind { png, jpeg, webp, gif };
const char* kind_name(ImageKind kind);

struct ImageHeader {
  ImageKind kind = ImageKind::png;
  int width = 0, height = 0;  // as stored, before turning
  int orientation = 1;        // EXIF: 1 upright … 8; 5 to 8 swap width and height
  bool animated = false;      // the first picture is the one that is read
};

// Throws unsupported (another kind of file, which it names) or corrupt (damaged, or larger than frame.h's
// limits). `whole`: also checks that a JPEG or WebP is complete.
ImageHeader read_image_header(std::span<const uint8_t> file, std::string_view name, bool whole);

}  // namespace tachy
