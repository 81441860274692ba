#include "media/picture/clip_picture.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "media/picture/image_reader.h"

namespace tachy {
namespace {

std::vector<float> as_processor(RgbView picture, const ClipPreparation& how) {
  const int64_t w = picture.width, h = picture.height, edge = how.shortest_edge, side = how.side;
  // The longer side is a truncated double, as in the reference.
  const auto longer = [&](int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<double>(edge * a) / static_cast<double>(b));
  };
  const int64_t to_w = w <= h ? edge : longer(w, h), to_h = w <= h ? longer(h, w) : edge;
  require(std::max(to_w, to_h) <= kMaxImageSide,
          "a picture of {}x{} is too narrow for CLIP: its shorter side would have {} pixels and the longer "
          "one {}",
          w, h, edge, std::max(to_w, to_h));
  const RgbFrame fitted = resize(picture, static_cast<int>(to_w), static_cast<int>(to_h), Filter::bicubic);
  const int64_t left = (to_w - side) / 2, top = (to_h - side) / 2;
  std::vector<float> out(static_cast<size_t>(3 * side * side));
  float table[3][256];
  for (size_t c = 0; c < 3; ++c)
    for (int v = 0; v < 256; ++v)
      table[c][v] = (static_cast<float>(v * how.rescale) - static_cast<float>(how.mean[c])) /
                    static_cast<float>(how.deviation[c]);
  for (int64_t y = 0; y < side; ++y) {
    const uint8_t* row = fitted.row(static_cast<int>(top + y)) + 3 * left;
    for (int64_t x = 0; x < side; ++x)
      for (int64_t c = 0; c < 3; ++c)
        out[static_cast<size_t>((c * side + y) * side + x)] = table[c][row[3 * x + c]];
  }
  return out;
}

// The four neighbours of each output along one axis. A comparison of bits showed which multiplications
// torch's compiler fuses with the following addition; they are the same for AVX2 and AVX-512.
struct Cubic {
  int64_t at[4];
  float weight[4];
};

float near_weight(float x) {  // |x| <= 1
  return std::fma(1.25f, x, -2.25f) * x * x + 1.0f;
}
float far_weight(float x) {  // 1 < |x| < 2
  const float inner = std::fma(std::fma(-0.75f, x, 3.75f), x, -6.0f);
  return inner * x + 3.0f;
}

std::vector<Cubic> cubics(int64_t in, int64_t out) {
  std::vector<Cubic> taps(static_cast<size_t>(out));
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  for (int64_t i = 0; i < out; ++i) {
    const float place = std::fma(scale, static_cast<float>(i) + 0.5f, -0.5f), whole = std::floor(place);
    const float t = place - whole, rest = 1.0f - t;
    Cubic& tap = taps[static_cast<size_t>(i)];
    for (int64_t k = 0; k < 4; ++k)
      tap.at[k] = std::clamp<int64_t>(static_cast<int64_t>(whole) - 1 + k, 0, in - 1);
    tap.weight[0] = far_weight(t + 1.0f), tap.weight[1] = near_weight(t);
    tap.weight[2] = near_weight(rest), tap.weight[3] = far_weight(rest + 1.0f);
  }
  return taps;
}

float weighted(const float (&v)[4], const float (&w)[4]) {
  const float second = v[1] * w[1];
  return std::fma(v[3], w[3], std::fma(v[2], w[2], std::fma(v[0], w[0], second)));
}

std::vector<float> as_original(RgbView picture, const ClipPreparation& how) {
  const int64_t side = how.side;
  const std::vector<Cubic> columns = cubics(picture.width, side), rows = cubics(picture.height, side);
  float values[256];
  for (int v = 0; v < 256; ++v) values[v] = (static_cast<float>(v) / 255.0f - 0.5f) / 0.5f;
  std::vector<float> out(static_cast<size_t>(3 * side * side));
  for (int64_t y = 0; y < side; ++y)
    for (int64_t x = 0; x < side; ++x)
      for (int64_t c = 0; c < 3; ++c) {
        const Cubic &row = rows[static_cast<size_t>(y)], &column = columns[static_cast<size_t>(x)];
        float lines[4], pixels[4];
        for (int k = 0; k < 4; ++k) {
          const uint8_t* line = picture.row(static_cast<int>(row.at[k])) + c;
          for (int j = 0; j < 4; ++j) pixels[j] = values[line[3 * column.at[j]]];
          lines[k] = weighted(pixels, column.weight);
        }
        const float unit = weighted(lines, row.weight) * 0.5f + 0.5f;
        out[static_cast<size_t>((c * side + y) * side + x)] =
            (unit - static_cast<float>(how.mean[static_cast<size_t>(c)])) /
            static_cast<float>(how.deviation[static_cast<size_t>(c)]);
      }
  return out;
}

}  // namespace

std::vector<float> clip_pixels(RgbView picture, const ClipPreparation& how) {
  require(picture.rgb != nullptr && picture.width >= 1 && picture.height >= 1,
          "CLIP's picture: expected a picture, got {}x{}", picture.width, picture.height);
  require(how.side >= 1 && how.side <= 4096 && how.shortest_edge >= how.side && how.shortest_edge <= 4096,
          "CLIP's picture: expected sides of 1 to 4096, got {} of {}", how.side, how.shortest_edge);
  return how.original ? as_original(picture, how) : as_processor(picture, how);
}

}  // namespace tachy
