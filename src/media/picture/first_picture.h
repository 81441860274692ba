// Makes the first picture of an animation a still file for FFmpeg's decoders. These do not know animated
// WebP, and they make transparent parts of a GIF white, whereas Pillow's convert("RGB") keeps the colour
// below. Private to src/media.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tachy {

struct FirstPicture {
  std::vector<uint8_t> file;  // a file with one picture
  int width = 0, height = 0;  // size of the animation
  int left = 0, top = 0;      // place of the picture in the animation; the rest is black
  bool animated = false;      // other pictures follow
};

// Both throw corrupt if the file ends inside the picture.
FirstPicture first_of_webp(std::span<const uint8_t> file, std::string_view name);
FirstPicture first_of_gif(std::span<const uint8_t> file, std::string_view name);

}  // namespace tachy
