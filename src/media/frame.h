// One picture as the rest of the engine sees it: 8-bit RGB, rows from top to bottom, interleaved.
//
// RgbFrame owns its bytes ([height, width, 3], no padding). RgbView points at bytes of another owner, with a
// row stride, so that a writer can take a tensor's memory without a copy. Values are full-range sRGB, 0 to
// 255.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tachy {

// A single picture is never larger than this, whatever a file claims.
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
