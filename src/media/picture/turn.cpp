#include "media/picture/turn.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tachy {

RgbFrame turn_upright(RgbFrame in, int orientation) {
  if (orientation <= 1) return in;
  const bool swapped = turns_sideways(orientation);
  RgbFrame out(swapped ? in.height : in.width, swapped ? in.width : in.height);
  // Pixel (x, y) of the upright picture is stored by the camera at (u, v) = (x, y), or at (y, x) if the sides
  // are swapped; each may be counted from the other end.
  const bool far_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool far_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const int64_t row = int64_t{in.width} * 3;
  const int64_t step_u = far_x ? -3 : 3, step_v = far_y ? -row : row;
  const uint8_t* origin =
      in.rgb.data() + (far_x ? (in.width - 1) * int64_t{3} : 0) + (far_y ? (in.height - 1) * row : 0);
  const int64_t step_x = swapped ? step_v : step_u, step_y = swapped ? step_u : step_v;
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* from = origin + y * step_y;
    uint8_t* to = out.row(y);
    for (int x = 0; x < out.width; ++x) std::memcpy(to + 3 * int64_t{x}, from + x * step_x, 3);
  }
  return out;
}

int orientation_of_matrix(const int32_t* m) {
  const double a = m[0], b = m[1], c = m[3], d = m[4];
  if (a == 0 && b == 0 && c == 0 && d == 0) return 1;
  constexpr double kOneDegree = 0.017455;
  const double straight = std::min(std::abs(a), std::abs(d)), crossed = std::min(std::abs(b), std::abs(c));
  if (std::max(std::abs(b), std::abs(c)) < kOneDegree * straight)
    return a > 0 ? (d > 0 ? 1 : 4) : (d > 0 ? 2 : 3);
  if (std::max(std::abs(a), std::abs(d)) < kOneDegree * crossed)
    return c > 0 ? (b > 0 ? 5 : 8) : (b > 0 ? 6 : 7);
  return 0;
}

}  // namespace tachy
