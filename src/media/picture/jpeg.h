// Encodes a picture as a JPEG in memory: baseline, 4:2:0, BT.601 full range, which every browser shows.
//
// This is for frames that are sent at once; files to be kept are PNG or video. libjpeg (turbo) replaces
// FFmpeg's encoder because it takes a third of the time for such a picture, including colour conversion
// (bench/notes/world_page.md).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "media/frame.h"

namespace tachy {

// It keeps its tables and its buffer between pictures, and only one thread may use it at a time.
class JpegEncoder {
 public:
  explicit JpegEncoder(int quality = 85);  // 1 to 100
  ~JpegEncoder();
  JpegEncoder(JpegEncoder&&) noexcept;
  JpegEncoder& operator=(JpegEncoder&&) noexcept;

  // Appends the picture's bytes to `out`. Throws invalid_argument for a size that JPEG does not allow.
  void encode(RgbView picture, std::vector<uint8_t>& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy
