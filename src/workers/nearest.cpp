#include "workers/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tachy::workers {
namespace {

constexpr int kParts = 64;                // a side is shrunk by 64ths
constexpr int kFewestParts = kParts / 4;  // as far as sides shrink before frames are given up
constexpr int kMostSide = 16384, kMostFrames = 65533;

int to_multiple(double value, int multiple) {
  return std::max(static_cast<int>(value / multiple + 0.5), 1) * multiple;
}

// Returns about the largest n of [least, most] for which fits(n), or least - 1. It begins with small numbers,
// since planning something large takes long, and is content with what is a sixteenth too small.
int largest(int least, int most, const std::function<bool(int)>& fits) {
  if (!fits(least)) return least - 1;
  int good = least, bad = most + 1;
  for (int step = 1; good < most && bad > most; step *= 2) {
    const int next = std::min(good + step, most);
    (fits(next) ? good : bad) = next;
  }
  while (bad - good > 1 + good / 16) {
    const int middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace

Shape on_grid(const Shape& shape, const Grid& grid) {
  return {to_multiple(std::clamp(shape.width, 1, kMostSide), grid.size),
          to_multiple(std::clamp(shape.height, 1, kMostSide), grid.size),
          (std::clamp(shape.frames, 1, kMostFrames) - 1 + grid.frames / 2) / grid.frames * grid.frames + 1};
}

std::optional<Shape> nearest_that_fits(const Shape& wanted, const Grid& grid,
                                       const std::function<bool(const Shape&)>& fits) {
  const Shape whole = on_grid(wanted, grid);
  if (whole != wanted && fits(whole)) return whole;
  const int most = (whole.frames - 1) / grid.frames;
  const auto shrunk = [&](int parts, int groups) {
    const double by = static_cast<double>(parts) / kParts;
    return Shape{to_multiple(whole.width * by, grid.size), to_multiple(whole.height * by, grid.size),
                 groups * grid.frames + 1};
  };
  const auto with_size = [&](int groups) {
    return [&, groups](int parts) { return fits(shrunk(parts, groups)); };
  };
  const int groups = largest(0, most, [&](int n) { return fits(shrunk(kFewestParts, n)); });
  if (groups == most) return shrunk(largest(kFewestParts, kParts - 1, with_size(most)), most);
  if (groups >= 0) return shrunk(kFewestParts, groups);
  if (const int parts = largest(1, kFewestParts - 1, with_size(0)); parts >= 1) return shrunk(parts, 0);
  return std::nullopt;
}

nlohmann::json fields_of_shape(const Shape& shape, bool with_frames) {
  nlohmann::json out = {{"size", fmt::format("{}x{}", shape.width, shape.height)}};
  if (with_frames) out["num_frames"] = shape.frames;
  return out;
}

}  // namespace tachy::workers
