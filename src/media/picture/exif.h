// Finds out which way up a picture is shown, from its EXIF and XMP, by the rules of Pillow 13's
// Image.getexif():
//
//   EXIF   a TIFF (byte order, 42, offset of the first directory), with or without "Exif\0\0" once or twice
//          before it. The first usable entry of tag 0x0112 counts, a number of any type; entries after one
//          whose value lies outside the data do not.
//   XMP    if EXIF has no such tag: the first tiff:Orientation="N" or <tiff:Orientation>N
//
// Anything unexpected counts as upright, since damaged metadata is no reason to refuse a photo. Private to
// src/media.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tachy {

// Returns 1 (upright) to 8, as in EXIF. It never throws.
int orientation_of(std::span<const uint8_t> exif, std::string_view xmp);

}  // namespace tachy
