// Reads pictures from files: PNG, JPEG, GIF and, if FFmpeg has it, WebP; turned upright as their EXIF or XMP
// says (exif.h), like Pillow's exif_transpose. The first picture of an animation is read, and a warning says
// so.
//
// Everything becomes 8-bit RGB as Pillow's convert("RGB") does it: alpha is dropped, gray is repeated,
// palettes are looked up. Colour profiles are ignored. Sizes are checked in the header, before anything is
// allocated.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "media/frame.h"

namespace tachy {

// Throws not_found, io, unsupported (not a picture we read), corrupt (truncated, damaged, too large).
RgbFrame read_image(const std::filesystem::path& path);
// Does the same with a file's bytes; `name` is for messages. Throws invalid_argument for a picture of more
// than `most_pixels`, before anything of that size is allocated.
RgbFrame decode_image(std::span<const uint8_t> file, const std::string& name,
                      int64_t most_pixels = kMaxImagePixels);

// The size after turning upright, from the header alone.
struct ImageSize {
  int width = 0, height = 0;
};
ImageSize read_image_size(const std::filesystem::path& path);

// Bilinear, Lanczos (3 lobes) or bicubic, widened when shrinking, equal to Pillow 13's. Stretches if the
// shapes differ.
enum class Filter { lanczos, bicubic, bilinear };
RgbFrame resize(RgbView image, int width, int height, Filter filter = Filter::lanczos);

// How a picture of w x h covers width x height: the size to which it is resized, and the place of its corner
// in the result (0 or less, except where rounding leaves pixels uncovered). Divides integers as diffusers
// does.
struct Cover {
  int64_t width = 0, height = 0, left = 0, top = 0;
};
Cover cover(int64_t w, int64_t h, int width, int height);

// Resizes the picture so that it covers width x height, then takes the centre: equal to diffusers'
// resize_mode "crop".
RgbFrame resize_crop(RgbView image, int width, int height);

// Takes the largest centred part that has the shape of width x height, then resizes it, bilinear: as
// Matrix-Game 2's program does.
RgbFrame crop_resize(RgbView image, int width, int height);

}  // namespace tachy
