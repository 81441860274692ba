// Reads PNG, JPEG, GIF and, if FFmpeg supports it, WebP, and turns pictures upright by their EXIF or XMP
// (exif.h), like Pillow's exif_transpose. Of an animation only the first picture is read, with a warning.
//
// The result is 8-bit RGB as from Pillow's convert("RGB"): alpha is dropped, gray is repeated, and palettes
// are looked up. Colour profiles are ignored. Sizes are checked in the header before memory is allocated.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "media/frame.h"

namespace tachy {

// Throws not_found, io, unsupported (another kind of file), or corrupt (truncated, damaged, too large).
RgbFrame read_image(const std::filesystem::path& path);
// Does the same for a file's bytes; `name` is for messages. Throws invalid_argument for a picture of more
// than `most_pixels`, before anything of that size is allocated.
RgbFrame decode_image(std::span<const uint8_t> file, const std::string& name,
                      int64_t most_pixels = kMaxImagePixels);

// The size after turning upright, which the header tells.
struct ImageSize {
  int width = 0, height = 0;
};
ImageSize read_image_size(const std::filesystem::path& path);

// Resizes with a bilinear, Lanczos (3 lobes) or bicubic filter that is widened when shrinking; equal to
// Pillow 13's results. The picture is stretched if the shapes differ.
enum class Filter { lanczos, bicubic, bilinear };
RgbFrame resize(RgbView image, int width, int height, Filter filter = Filter::lanczos);

// How a picture of w x h covers width x height: its new size, and the place of its corner in the result (0 or
// less, except where rounding leaves pixels uncovered). Integers are divided as in diffusers.
struct Cover {
  int64_t width = 0, height = 0, left = 0, top = 0;
};
Cover cover(int64_t w, int64_t h, int width, int height);

// Resizes the picture so that it covers width x height, and then takes the centre, as diffusers' resize_mode
// "crop" does.
RgbFrame resize_crop(RgbView image, int width, int height);

// Takes the largest centred part with the shape of width x height, and then resizes it bilinearly, as
// Matrix-Game 2's program does.
RgbFrame crop_resize(RgbView image, int width, int height);

}  // namespace tachy
