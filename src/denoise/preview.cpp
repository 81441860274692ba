#include "denoise/preview.h"

#include <algorithm>
#include <cmath>

namespace tachy {

Preview latent_preview(const Tensor& x, const std::vector<float>& factors) {
  const int64_t z = x.dim(0), frames = x.dim(1), h = x.dim(2), w = x.dim(3), plane = h * w,
                clip = frames * plane;
  const float* data = x.as<float>();
  Preview out;
  out.width = static_cast<int>(frames * w);
  out.height = static_cast<int>(h);
  out.rgb.resize(static_cast<size_t>(out.width * out.height * 3));

  std::vector<float> weight(static_cast<size_t>((z + 1) * 3), 0.0f);
  if (!factors.empty()) {
    weight = factors;
  } else {
    for (int64_t c = 0; c < 3; ++c) {
      const int64_t channel = std::min(c, z - 1);
      const auto [lo, hi] = std::minmax_element(data + channel * clip, data + (channel + 1) * clip);
      const float range = std::max(*hi - *lo, 1e-6f);
      weight[static_cast<size_t>(channel * 3 + c)] = 2 / range;
      weight[static_cast<size_t>(z * 3 + c)] = -1 - 2 * *lo / range;
    }
  }
  for (int64_t t = 0; t < frames; ++t)
    for (int64_t i = 0; i < plane; ++i)
      for (int64_t c = 0; c < 3; ++c) {
        float value = weight[static_cast<size_t>(z * 3 + c)];
        for (int64_t k = 0; k < z; ++k)
          value += weight[static_cast<size_t>(k * 3 + c)] * data[k * clip + t * plane + i];
        const float level = std::clamp((value + 1) * 127.5f, 0.0f, 255.0f);
        const int64_t y = i / w, column = t * w + i % w;
        out.rgb[static_cast<size_t>((y * out.width + column) * 3 + c)] =
            static_cast<uint8_t>(std::lround(level));
      }
  return out;
}

}  // namespace tachy
