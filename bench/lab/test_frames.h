// Frames that are easy or hard for an encoder, made without separate files: clips enlarged
// with film grain, and noise.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "media/picture/image_reader.h"
#include "media/video/video_reader.h"

namespace tachy::lab {

// Sixty-four bits from a counter (splitmix64), so that any frame can be made by itself.
inline uint64_t bits_of(uint64_t n) {
  n += 0x9e3779b97f4a7c15;
  n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
  n = (n ^ n >> 27) * 0x94d049bb133111eb;
  return n ^ n >> 31;
}

// Every byte is random, so no encoder finds anything to predict.
inline RgbFrame noise_frame(int width, int height, int t) {
  RgbFrame out(width, height);
  const uint64_t first = uint64_t(t + 1) << 40;
  for (size_t i = 0; i < out.rgb.size(); i += 8) {
    const uint64_t bits = bits_of(first + i);
    for (size_t k = 0; k < 8 && i + k < out.rgb.size(); ++k) out.rgb[i + k] = uint8_t(bits >> 8 * k);
  }
  return out;
}

// Adds film grain: Gaussian luminance noise of this deviation (in steps of 255) before a 3x3
// blur, new in every frame.
inline void add_grain(RgbFrame& frame, int t, double deviation) {
  const int w = frame.width, h = frame.height;
  std::vector<float> raw(size_t(w) * h), rows(size_t(w) * h);
  const uint64_t first = uint64_t(t + 1) << 40;
  for (size_t i = 0; i < raw.size(); ++i) {
    const uint64_t b = bits_of(first + i);  // four sixteen-bit numbers: nearly Gaussian, variance 4/12
    const double sum =
        (double(b & 0xffff) + double(b >> 16 & 0xffff) + double(b >> 32 & 0xffff) + double(b >> 48)) / 65536;
    raw[i] = float((sum - 2) * std::sqrt(3.0) * deviation);
  }
  const auto at = [](int i, int n) { return std::clamp(i, 0, n - 1); };
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x) {
      const float* row = raw.data() + size_t(y) * w;
      rows[size_t(y) * w + x] = 0.25f * row[at(x - 1, w)] + 0.5f * row[x] + 0.25f * row[at(x + 1, w)];
    }
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x) {
      const auto row = [&](int r) { return rows[size_t(at(r, h)) * w + x]; };
      const float grain = 0.25f * row(y - 1) + 0.5f * row(y) + 0.25f * row(y + 1);
      for (int c = 0; c < 3; ++c) {
        uint8_t& value = frame.row(y)[3 * x + c];
        value = uint8_t(std::clamp(std::lround(value + grain), 0L, 255L));
      }
    }
}

// Plays the clip forwards and backwards for as long as needed; each frame is enlarged and gets its own grain.
inline RgbFrame film_frame(const std::vector<RgbFrame>& clip, int width, int height, int t,
                           double deviation = 4) {
  const int n = int(clip.size()), period = std::max(1, 2 * n - 2), at = t % period;
  RgbFrame out = resize_crop(clip[size_t(at < n ? at : period - at)].view(), width, height);
  add_grain(out, t, deviation);
  return out;
}

}  // namespace tachy::lab
