// The first picture of an animation, as a still file that FFmpeg's decoders take: they know no animated WebP, and of a GIF they
// make what is transparent white, where Pillow's convert("RGB") keeps the colour beneath. Private to src/media.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tachy {

struct FirstPicture {
  std::vector<uint8_t> file;  // of one picture
  int width = 0, height = 0;  // of that
  int left = 0, top = 0;      // where it lies; what is round it is black
  bool animated = false;      // others follow
};

// Throw corrupt where the file ends before the picture does.
FirstPicture first_of_webp(std::span<const uint8_t> file, std::string_view name);
FirstPicture first_of_gif(std::span<const uint8_t> file, std::string_view name);

}  // namespace tachy
