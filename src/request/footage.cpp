#include "request/footage.h"

#include <algorithm>
#include <cmath>

namespace tachy {
namespace {

constexpr double kMostFrames = 1e9;

double ratio_of(const Footage& footage, double fps) {
  const double ratio = footage.fps > 0 && std::isfinite(footage.fps) ? footage.fps / fps : 1;
  return std::abs(ratio - 1) <= 0.01 ? 1 : std::clamp(ratio, 1e-6, 1e6);
}

}  // namespace

const std::string& called(const Footage& footage) {
  return footage.name.empty() ? footage.path : footage.name;
}

int64_t frame_at(const Footage& footage, double fps, int64_t i) {
  const auto frame = static_cast<int64_t>(std::floor(static_cast<double>(i) * ratio_of(footage, fps) + 0.5));
  return std::clamp<int64_t>(frame, 0, std::max<int64_t>(footage.frames - 1, 0));
}

int64_t frames_at(const Footage& footage, double fps) {
  if (footage.frames == 0) return 0;
  const double count = (static_cast<double>(footage.frames) - 0.5) / ratio_of(footage, fps);
  return static_cast<int64_t>(std::clamp(std::ceil(count), 1.0, kMostFrames));
}

}  // namespace tachy
