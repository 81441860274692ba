// A picture in the form that the engine uses: 8-bit RGB, interleaved, with rows from top to bottom.
//
// RgbFrame owns its bytes ([height, width, 3], no padding). RgbView points to another owner's bytes and has a
// row stride, so that a writer can read a tensor's memory without a copy. Values are full-range sRGB, 0 to
// 255.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tachy {

// No picture is larger than this, whatever its file claims.
inline constexpr int kMaxImageSide = 16384;
inline constexpr int64_t kMaxImagePixels = 100'000'000;

struct RgbView {
  const uint8_t* rgb = nullptr;
  int width = 0, height = 0;
  int64_t stride_bytes = 0;  // from one row to the next; at least 3 * width

  const uint8_t* row(int y) const { return rgb + y * stride_bytes; }
};

struct RgbFrame {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;

  RgbFrame() = default;
  RgbFrame(int w, int h) : width(w), height(h), rgb(size_t(w) * size_t(h) * 3) {}
  uint8_t* row(int y) { return rgb.data() + size_t(y) * size_t(width) * 3; }
  const uint8_t* row(int y) const { return rgb.data() + size_t(y) * size_t(width) * 3; }
  RgbView view() const { return {rgb.data(), width, height, int64_t(width) * 3}; }
};

}  // namespace tachy
