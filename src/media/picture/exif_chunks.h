// Where PNG and WebP keep EXIF and XMP, as Pillow looks for them:
//
//   PNG   eXIf (the last one), otherwise a text "Raw profile type exif" (digits behind three lines, as ImageMagick writes it);
//         XMP in a text "XML:com.adobe.xmp". Texts may be plain, compressed or international; all of it before or behind the pixels.
//   WebP  the first chunks "EXIF" and "XMP ", where VP8X says that they are there
//
// Whatever is damaged or too large counts as missing: a decoder reports it where it matters. Private to src/media.
#pragma once

#include <cstdint>
#include <span>

namespace tachy {

// 1 (upright) to 8, of a whole file. They never throw.
int png_orientation(std::span<const uint8_t> file);
int webp_orientation(std::span<const uint8_t> file);

// Whether a PNG is animated (APNG): a chunk acTL of more than one picture before the pixels.
bool png_animated(std::span<const uint8_t> file);

}  // namespace tachy
