#include "api/reference_canvas.h"

#include <algorithm>

#include "base/error.h"
#include "media/picture/image_reader.h"

namespace tachy {
namespace {

// Resizes [h, w, 3] bilinearly without a wider filter for shrinking, as torch's interpolate does.
std::vector<float> bilinear(const std::vector<float>& in, int64_t w, int64_t h, int64_t width,
                            int64_t height) {
  struct Tap {
    int64_t low, high;
    float part;
  };
  const auto taps = [](int64_t from, int64_t to) {
    const float scale = static_cast<float>(from) / static_cast<float>(to);
    std::vector<Tap> out;
    for (int64_t i = 0; i < to; ++i) {
      const float at = std::max(scale * (static_cast<float>(i) + 0.5f) - 0.5f, 0.0f);
      const auto low = std::min(static_cast<int64_t>(at), from - 1);
      out.push_back({low, std::min(low + 1, from - 1), at - static_cast<float>(low)});
    }
    return out;
  };
  const std::vector<Tap> columns = taps(w, width), rows = taps(h, height);
  std::vector<float> out;
  out.reserve(static_cast<size_t>(width * height * 3));
  for (const Tap& y : rows)
    for (const Tap& x : columns)
      for (int64_t c = 0; c < 3; ++c) {
        const auto value = [&](int64_t row, int64_t column) {
          return in[static_cast<size_t>((row * w + column) * 3 + c)];
        };
        const float above = (1 - x.part) * value(y.low, x.low) + x.part * value(y.low, x.high),
                    below = (1 - x.part) * value(y.high, x.low) + x.part * value(y.high, x.high);
        out.push_back((1 - y.part) * above + y.part * below);
      }
  return out;
}

struct Fitted {
  int w = 0, h = 0;              // multiples of the VAE's stride
  int64_t new_w = 0, new_h = 0;  // as large as it fits
};

Fitted size_on_canvas(const char* field, const Picture& picture, const CanvasSize& size) {
  Fitted out{.w = picture.width / size.multiple * size.multiple,
             .h = picture.height / size.multiple * size.multiple};
  require(out.w > 0 && out.h > 0, "`{}`: {}x{} pixels are too few for a reference; at least {}x{} are needed",
          field, picture.width, picture.height, size.multiple, size.multiple);
  const double scale =
      std::min(static_cast<double>(size.height) / out.h, static_cast<double>(size.width) / out.w);
  out.new_h = static_cast<int64_t>(out.h * scale), out.new_w = static_cast<int64_t>(out.w * scale);
  require(out.new_w > 0 && out.new_h > 0, "`{}`: {}x{} is too narrow to be seen in {}x{}", field,
          picture.width, picture.height, size.width, size.height);
  return out;
}

}  // namespace

void check_fits_canvas(const char* field, const Picture& picture, const CanvasSize& size) {
  size_on_canvas(field, picture, size);
}

std::vector<float> on_canvas(const char* field, const Picture& picture, const CanvasSize& size) {
  const auto [w, h, new_w, new_h] = size_on_canvas(field, picture, size);
  const RgbFrame whole =
      resize({picture.rgb.data(), picture.width, picture.height, int64_t{picture.width} * 3}, w, h);
  std::vector<float> values;
  values.reserve(whole.rgb.size());
  for (const uint8_t v : whole.rgb) values.push_back(2.0f * (static_cast<float>(v) / 255.0f) - 1.0f);
  if (new_w != w || new_h != h) values = bilinear(values, w, h, new_w, new_h);
  std::vector<float> canvas(static_cast<size_t>(size.width) * static_cast<size_t>(size.height) * 3, 1.0f);
  const int64_t top = (size.height - new_h) / 2, left = (size.width - new_w) / 2;
  for (int64_t y = 0; y < new_h; ++y)
    std::copy_n(values.begin() + y * new_w * 3, new_w * 3,
                canvas.begin() + ((top + y) * size.width + left) * 3);
  return canvas;
}

}  // namespace tachy
