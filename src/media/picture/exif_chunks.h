// Finds EXIF and XMP in PNG and WebP, in the places where Pillow looks for them:
//
//   PNG   eXIf (the last one), otherwise a text "Raw profile type exif" (digits after three lines, as
//         ImageMagick writes it); XMP in a text "XML:com.adobe.xmp". Texts may be plain, compressed or
//         international; all may be before or after the pixels.
//   WebP  the first chunks "EXIF" and "XMP ", if VP8X says that they are there
//
// A part that is damaged or too large counts as missing; if it matters, a decoder reports it. Private to
// src/media.
#pragma once

#include <cstdint>
#include <span>

namespace tachy {

// Return 1 (upright) to 8 for a whole file. They never throw.
int png_orientation(std::span<const uint8_t> file);
int webp_orientation(std::span<const uint8_t> file);

// Says whether a PNG is animated (APNG): before the pixels it has a chunk acTL for more than one picture.
bool png_animated(std::span<const uint8_t> file);

}  // namespace tachy
