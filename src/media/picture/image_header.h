// Reads a picture's header without decoding the picture: the kind, the size, the orientation, and whether the
// file is complete.
//
//   PNG   IHDR (width, height), eXIf and texts (orientation), acTL (animated)
//   JPEG  segments FF xx length … up to the scan: SOFn (size), APP1 "Exif" and XMP (orientation); then EOI
//   WebP  RIFF size, then VP8X, VP8L or VP8 (size), EXIF and XMP (orientation)
//   GIF   width, height, and whether a second picture follows the first
//
// FFmpeg's decoders of JPEG and WebP conceal missing data. But a truncated picture must be an error, so this
// is checked here. libpng reports it by itself. Private to src/media.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tachy {

enum class ImageKind { png, jpeg, webp, gif };
const char* kind_name(ImageKind kind);

struct ImageHeader {
  ImageKind kind = ImageKind::png;
  int width = 0, height = 0;  // as stored, before it is turned
  int orientation = 1;        // as in EXIF, from 1 (upright) to 8; 5 to 8 swap width and height
  bool animated = false;      // only the first picture is read
};

// Throws unsupported for another kind of file, which it names, and corrupt for one that is damaged or exceeds
// frame.h's limits. With `whole`, it also checks that a JPEG or WebP is complete.
ImageHeader read_image_header(std::span<const uint8_t> file, std::string_view name, bool whole);

}  // namespace tachy
