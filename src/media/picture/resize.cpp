// Lanczos, bicubic and bilinear resampling, one axis after the other.
//
//   out[i] = sum_j w(i, j) in[j],   Lanczos: w ~ sinc(d) sinc(d / 3), |d| < 3
//                                   bicubic: w ~ 1.5 |d|^3 - 2.5 |d|^2 + 1, |d| < 1;
//                                                -0.5 (|d|^3 - 5 |d|^2 + 8 |d| - 4), 1 <= |d| < 2
//                                   bilinear: w ~ 1 - |d|, |d| < 1
//   d = (j + 1/2 - (i + 1/2) s) / max(s, 1),   s = in / out;   the weights of an output pixel sum to 1
//
// The arithmetic gives Pillow's bits: weights become 22-bit fixed-point numbers, each pass ends in 8 bits,
// and rows come first unless the height loses more than twice as many pixels as the width (Pillow 13; older
// versions always begin with the rows). Image-to-video models were trained with Pillow's resize, and
// diffusers gives them its results; transformers prepares CLIP's pictures with bicubic.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "media/picture/image_reader.h"

namespace tachy {
namespace {

constexpr int kBits = 22;  // bits of a weight's fraction: 255 times the largest sum still fits into 32 bits

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

struct Kernel {
  double reach;
  double (*weight)(double d);
};

constexpr double kLobes = 3;
constexpr Kernel kLanczos = {kLobes,
                             [](double d) { return std::abs(d) < kLobes ? sinc(d) * sinc(d / kLobes) : 0; }};

constexpr Kernel kBicubic = {2, [](double d) {
                               const double x = std::abs(d), a = -0.5;
                               if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
                               return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
                             }};

constexpr Kernel kBilinear = {1, [](double d) { return std::max(0.0, 1 - std::abs(d)); }};

const Kernel& kernel_of(Filter filter) {
  if (filter == Filter::bilinear) return kBilinear;
  return filter == Filter::bicubic ? kBicubic : kLanczos;
}

struct Taps {
  int begin = 0;
  std::vector<int32_t> weights;  // times 2^kBits
};

std::vector<Taps> make_taps(int in, int out, const Kernel& kernel) {
  const double scale = double(in) / out, widen = std::max(scale, 1.0), reach = kernel.reach * widen,
               narrow = 1.0 / widen;
  std::vector<Taps> taps(static_cast<size_t>(out));
  for (int i = 0; i < out; ++i) {
    double center = (i + 0.5) * scale;
    int begin = std::max(0, int(center - reach + 0.5)), end = std::min(in, int(center + reach + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int j = begin; j < end; ++j) sum += weights.emplace_back(kernel.weight((j - center + 0.5) * narrow));
    Taps& t = taps[size_t(i)];
    t.begin = begin;
    for (double w : weights) {
      const double scaled = w / sum * (1 << kBits);
      t.weights.push_back(static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
    }
  }
  return taps;
}

constexpr int32_t kHalf = 1 << (kBits - 1);

uint8_t to_pixel(int32_t sum) { return uint8_t(std::clamp(sum >> kBits, 0, 255)); }

void check_size(RgbView image, int width, int height) {
  require(image.rgb != nullptr && image.width >= 1 && image.height >= 1,
          "resize: expected a picture, got {}x{}", image.width, image.height);
  require(width >= 1 && height >= 1 && width <= kMaxImageSide && height <= kMaxImageSide &&
              int64_t(width) * height <= kMaxImagePixels &&
              int64_t(width) * image.height <= 4 * kMaxImagePixels,
          "resize: expected sides of 1 to {} and at most {} pixels, got {}x{}", kMaxImageSide,
          kMaxImagePixels, width, height);
}

RgbFrame resize_rows(RgbView in, int width, const Kernel& kernel) {
  RgbFrame out(width, in.height);
  std::vector<Taps> taps = make_taps(in.width, width, kernel);
  for (int y = 0; y < in.height; ++y) {
    uint8_t* to = out.row(y);
    for (const Taps& t : taps) {
      const uint8_t* from = in.row(y) + 3 * t.begin;
      int32_t r = kHalf, g = kHalf, b = kHalf;
      for (const int32_t w : t.weights) {
        r += w * from[0], g += w * from[1], b += w * from[2];
        from += 3;
      }
      to[0] = to_pixel(r), to[1] = to_pixel(g), to[2] = to_pixel(b);
      to += 3;
    }
  }
  return out;
}

RgbFrame resize_columns(RgbView in, int height, const Kernel& kernel) {
  RgbFrame out(in.width, height);
  std::vector<Taps> taps = make_taps(in.height, height, kernel);
  std::vector<int32_t> sums(size_t(in.width) * 3);
  for (int y = 0; y < height; ++y) {
    const Taps& t = taps[size_t(y)];
    std::fill(sums.begin(), sums.end(), kHalf);
    for (size_t k = 0; k < t.weights.size(); ++k) {
      const uint8_t* from = in.row(t.begin + int(k));
      const int32_t w = t.weights[k];
      for (size_t x = 0; x < sums.size(); ++x) sums[x] += w * from[x];
    }
    uint8_t* to = out.row(y);
    for (size_t x = 0; x < sums.size(); ++x) to[x] = to_pixel(sums[x]);
  }
  return out;
}

RgbFrame resize_unchecked(RgbView image, int width, int height, const Kernel& kernel) {
  if (height < image.height && width != image.width && image.height - height > 2 * (image.width - width)) {
    const RgbFrame columns = resize_columns(image, height, kernel);
    return resize_rows(columns.view(), width, kernel);
  }
  RgbFrame rows;
  if (width != image.width) {
    rows = resize_rows(image, width, kernel);
    image = rows.view();
  }
  if (height != image.height) return resize_columns(image, height, kernel);
  if (!rows.rgb.empty()) return rows;
  RgbFrame copy(width, height);
  for (int y = 0; y < height; ++y) std::memcpy(copy.row(y), image.row(y), size_t(width) * 3);
  return copy;
}

}  // namespace

RgbFrame resize(RgbView image, int width, int height, Filter filter) {
  check_size(image, width, height);
  return resize_unchecked(image, width, height, kernel_of(filter));
}

Cover cover(int64_t w, int64_t h, int width, int height) {
  const bool wide = width * h > w * height;  // if the result is wider than the picture, its width decides
  const int64_t covered_w = wide ? width : w * height / h, covered_h = wide ? h * width / w : height;
  return {covered_w, covered_h, width / 2 - covered_w / 2, height / 2 - covered_h / 2};
}

RgbFrame crop_resize(RgbView image, int width, int height) {
  check_size(image, width, height);
  const double shape = double(height) / width;
  const bool tall = double(image.height) / image.width > shape;
  // Computes in doubles, multiplies first, and rounds halves to even, like Python and Pillow.
  const int w = tall ? image.width : int(double(image.height) * width / height),
            h = tall ? int(double(image.width) * height / width) : image.height;
  const auto edge = [](double x) { return static_cast<int>(std::nearbyint(x)); };
  const int left = edge((image.width - w) / 2.0), right = edge((image.width + w) / 2.0),
            top = edge((image.height - h) / 2.0), bottom = edge((image.height + h) / 2.0);
  require(right > left && bottom > top,
          "resize: a picture of {}x{} cannot be cropped to the proportions of {}x{}, which are too different",
          image.width, image.height, width, height);
  const RgbView middle{image.row(top) + 3 * left, right - left, bottom - top, image.stride_bytes};
  return resize_unchecked(middle, width, height, kBilinear);
}

RgbFrame resize_crop(RgbView image, int width, int height) {
  check_size(image, width, height);
  const int64_t w = image.width, h = image.height;
  const auto [covered_w, covered_h, left, top] = cover(w, h, width, height);
  require(std::max(covered_w, covered_h) <= 4 * kMaxImageSide,
          "resize: a picture of {}x{} cannot be cropped to {}x{}: its proportions are too different", w, h,
          width, height);
  const RgbFrame covered =
      resize_unchecked(image, static_cast<int>(covered_w), static_cast<int>(covered_h), kLanczos);
  RgbFrame out(width, height);  // stays black where rounding left a row or column uncovered
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      const int64_t from_y = y - top, from_x = x - left;
      if (from_y < 0 || from_y >= covered_h || from_x < 0 || from_x >= covered_w) continue;
      std::memcpy(out.row(static_cast<int>(y)) + 3 * x, covered.row(static_cast<int>(from_y)) + 3 * from_x,
                  3);
    }
  return out;
}

}  // namespace tachy
