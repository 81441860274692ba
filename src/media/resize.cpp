// Lanczos resampling, one axis after the other.
//
//   out[i] = sum_j w(i, j) in[j],   w ~ sinc(d) sinc(d / 3), |d| < 3
//   d = (j + 1/2 - (i + 1/2) s) / max(s, 1),   s = in / out;   the weights of an output pixel sum to 1
//
// Rows come first and are rounded to 8 bits before the columns, as Pillow does it: image-to-video models were
// trained behind Pillow's resize, and its result is what they should see. (swscale's would differ by its own
// rounding and a detour over YUV.)
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "media/image_reader.h"

namespace tachy {
namespace {

constexpr double kLobes = 3;

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double lanczos(double x) { return std::abs(x) < kLobes ? sinc(x) * sinc(x / kLobes) : 0; }

struct Taps {
  int begin = 0;
  std::vector<float> weights;
};

std::vector<Taps> make_taps(int in, int out) {
  double scale = double(in) / out, widen = std::max(scale, 1.0), reach = kLobes * widen;
  std::vector<Taps> taps(static_cast<size_t>(out));
  for (int i = 0; i < out; ++i) {
    double center = (i + 0.5) * scale;
    int begin = std::max(0, int(center - reach + 0.5)), end = std::min(in, int(center + reach + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int j = begin; j < end; ++j) sum += weights.emplace_back(lanczos((j - center + 0.5) / widen));
    Taps& t = taps[size_t(i)];
    t.begin = begin;
    for (double w : weights) t.weights.push_back(float(w / sum));
  }
  return taps;
}

uint8_t round_pixel(float v) { return uint8_t(std::clamp(int(std::floor(v + 0.5f)), 0, 255)); }

void check_size(RgbView image, int width, int height) {
  require(image.rgb != nullptr && image.width >= 1 && image.height >= 1,
          "resize: expected a picture, got {}x{}", image.width, image.height);
  require(width >= 1 && height >= 1 && width <= kMaxImageSide && height <= kMaxImageSide &&
              int64_t(width) * height <= kMaxImagePixels &&
              int64_t(width) * image.height <= 4 * kMaxImagePixels,
          "resize: expected sides of 1 to {} and at most {} pixels, got {}x{}", kMaxImageSide,
          kMaxImagePixels, width, height);
}

RgbFrame resize_rows(RgbView in, int width) {
  RgbFrame out(width, in.height);
  std::vector<Taps> taps = make_taps(in.width, width);
  for (int y = 0; y < in.height; ++y) {
    uint8_t* to = out.row(y);
    for (const Taps& t : taps) {
      const uint8_t* from = in.row(y) + 3 * t.begin;
      float r = 0, g = 0, b = 0;
      for (float w : t.weights) {
        r += w * from[0], g += w * from[1], b += w * from[2];
        from += 3;
      }
      to[0] = round_pixel(r), to[1] = round_pixel(g), to[2] = round_pixel(b);
      to += 3;
    }
  }
  return out;
}

RgbFrame resize_columns(RgbView in, int height) {
  RgbFrame out(in.width, height);
  std::vector<Taps> taps = make_taps(in.height, height);
  std::vector<float> sums(size_t(in.width) * 3);
  for (int y = 0; y < height; ++y) {
    const Taps& t = taps[size_t(y)];
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (size_t k = 0; k < t.weights.size(); ++k) {
      const uint8_t* from = in.row(t.begin + int(k));
      float w = t.weights[k];
      for (size_t x = 0; x < sums.size(); ++x) sums[x] += w * from[x];
    }
    uint8_t* to = out.row(y);
    for (size_t x = 0; x < sums.size(); ++x) to[x] = round_pixel(sums[x]);
  }
  return out;
}

}  // namespace

RgbFrame resize(RgbView image, int width, int height) {
  check_size(image, width, height);
  RgbFrame rows;
  if (width != image.width) {
    rows = resize_rows(image, width);
    image = rows.view();
  }
  if (height != image.height) return resize_columns(image, height);
  if (!rows.rgb.empty()) return rows;
  RgbFrame copy(width, height);
  for (int y = 0; y < height; ++y) std::memcpy(copy.row(y), image.row(y), size_t(width) * 3);
  return copy;
}

RgbFrame resize_cover(RgbView image, int width, int height) {
  check_size(image, width, height);
  double scale = std::max(double(width) / image.width, double(height) / image.height);
  int covered_w = std::max(width, int(std::lround(image.width * scale)));
  int covered_h = std::max(height, int(std::lround(image.height * scale)));
  // Cropping first keeps an extreme panorama from growing: only what will be seen is resized.
  int keep_w = std::clamp(int(std::lround(double(image.width) * width / covered_w)), 1, image.width);
  int keep_h = std::clamp(int(std::lround(double(image.height) * height / covered_h)), 1, image.height);
  RgbView part = image;
  part.rgb = image.row((image.height - keep_h) / 2) + 3 * ((image.width - keep_w) / 2);
  part.width = keep_w;
  part.height = keep_h;
  return resize(part, width, height);
}

}  // namespace tachy
