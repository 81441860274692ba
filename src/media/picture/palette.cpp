#include "media/picture/palette.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace tachy {
namespace {

struct Point {
  std::array<double, 3> color;
  double weight;
};

struct Box {
  size_t begin, end;  // range of the points
  double error;       // weighted sum of squared distances to the mean
  int axis;           // the axis along which these are largest
};

Box measure(const std::vector<Point>& points, size_t begin, size_t end) {
  double weight = 0;
  std::array<double, 3> sum{}, squares{};
  for (size_t i = begin; i < end; ++i) {
    weight += points[i].weight;
    for (int c = 0; c < 3; ++c) {
      sum[c] += points[i].weight * points[i].color[c];
      squares[c] += points[i].weight * points[i].color[c] * points[i].color[c];
    }
  }
  Box box{begin, end, 0, 0};
  double largest = -1;
  for (int c = 0; c < 3; ++c) {
    double error = std::max(0.0, squares[c] - sum[c] * sum[c] / weight);
    box.error += error;
    if (error > largest) largest = error, box.axis = c;
  }
  if (end - begin < 2) box.error = 0;
  return box;
}

// Finds the cut that minimises the remaining error, that is, maximises sum_left^2/w_left +
// sum_right^2/w_right.
size_t best_cut(std::vector<Point>& points, const Box& box) {
  auto first = points.begin() + ptrdiff_t(box.begin), last = points.begin() + ptrdiff_t(box.end);
  std::sort(first, last, [axis = box.axis](const Point& a, const Point& b) {
    return a.color[axis] != b.color[axis] ? a.color[axis] < b.color[axis] : a.color < b.color;
  });
  double weight = 0, sum = 0, left_weight = 0, left_sum = 0, best = -1;
  for (auto p = first; p != last; ++p) weight += p->weight, sum += p->weight * p->color[box.axis];
  size_t cut = box.begin + 1;
  for (size_t i = box.begin; i + 1 < box.end; ++i) {
    left_weight += points[i].weight;
    left_sum += points[i].weight * points[i].color[box.axis];
    double right_sum = sum - left_sum;
    double gain = left_sum * left_sum / left_weight + right_sum * right_sum / (weight - left_weight);
    if (gain > best) best = gain, cut = i + 1;
  }
  return cut;
}

size_t nearest_of(const std::vector<std::array<double, 3>>& centers, const std::array<double, 3>& color) {
  size_t found = 0;
  double best = std::numeric_limits<double>::max();
  for (size_t k = 0; k < centers.size(); ++k) {
    double d = 0;
    for (int c = 0; c < 3; ++c) d += (centers[k][c] - color[c]) * (centers[k][c] - color[c]);
    if (d < best) best = d, found = k;
  }
  return found;
}

void refine(const std::vector<Point>& points, std::vector<std::array<double, 3>>& centers) {
  std::vector<std::array<double, 4>> sums(centers.size());
  for (const Point& p : points) {
    auto& s = sums[nearest_of(centers, p.color)];
    for (int c = 0; c < 3; ++c) s[c] += p.weight * p.color[c];
    s[3] += p.weight;
  }
  for (size_t k = 0; k < centers.size(); ++k)
    for (int c = 0; c < 3; ++c)
      if (sums[k][3] > 0) centers[k][c] = sums[k][c] / sums[k][3];
}

constexpr int kRefineRounds = 4;

}  // namespace

void ColorHistogram::add(RgbView frame) {
  for (int y = 0; y < frame.height; ++y) {
    const uint8_t* p = frame.row(y);
    for (int x = 0; x < frame.width; ++x, p += 3) {
      Bin& bin = bins_[size_t(p[0] >> 2) << 12 | size_t(p[1] >> 2) << 6 | size_t(p[2] >> 2)];
      ++bin.count;
      for (int c = 0; c < 3; ++c) {
        bin.sum[c] += p[c];
        bin.squares += uint64_t(p[c]) * p[c];
      }
    }
  }
}

Palette make_palette(const ColorHistogram& histogram, int max_colors) {
  require(max_colors >= 1 && max_colors <= 255, "make_palette: expected 1 to 255 colours, got {}",
          max_colors);
  std::vector<Point> points;
  double pixels = 0, squares = 0;
  for (const auto& bin : histogram.bins()) {
    if (bin.count == 0) continue;
    Point point{{}, double(bin.count)};
    for (int c = 0; c < 3; ++c) point.color[c] = double(bin.sum[c]) / point.weight;
    points.push_back(point);
    pixels += point.weight;
    squares += double(bin.squares);
  }
  require(!points.empty(), "make_palette: no pixels");

  std::vector<Box> boxes{measure(points, 0, points.size())};
  while (int(boxes.size()) < max_colors) {
    auto worst = std::max_element(boxes.begin(), boxes.end(),
                                  [](const Box& a, const Box& b) { return a.error < b.error; });
    if (worst->error <= 0) break;
    Box box = *worst;
    size_t cut = best_cut(points, box);
    *worst = measure(points, box.begin, cut);
    boxes.push_back(measure(points, cut, box.end));
  }

  std::vector<std::array<double, 3>> centers;
  for (const Box& box : boxes) {
    std::array<double, 3> mean{};
    double weight = 0;
    for (size_t i = box.begin; i < box.end; ++i) {
      for (int c = 0; c < 3; ++c) mean[c] += points[i].weight * points[i].color[c];
      weight += points[i].weight;
    }
    for (double& m : mean) m /= weight;
    centers.push_back(mean);
  }
  if (points.size() > centers.size())
    for (int round = 0; round < kRefineRounds; ++round) refine(points, centers);

  Palette palette;
  for (const auto& center : centers) {
    std::array<uint8_t, 3> color;
    for (int c = 0; c < 3; ++c) color[c] = uint8_t(std::clamp(std::lround(center[c]), 0L, 255L));
    palette.colors.push_back(color);
  }
  // E|x - c|^2 = E|x|^2 - E|mean|^2 (spread within the bins) + |mean - c|^2 (between bin and colour).
  double error = squares;
  for (const Point& p : points) {
    const auto& center = centers[nearest_of(centers, p.color)];
    for (int c = 0; c < 3; ++c) {
      double d = p.color[c] - center[c];
      error += p.weight * (d * d - p.color[c] * p.color[c]);
    }
  }
  palette.rms_error = std::sqrt(std::max(0.0, error) / (3 * pixels));
  return palette;
}

PaletteMapper::PaletteMapper(const Palette& palette)
    : count_(int(palette.colors.size())), known_(size_t(1) << 24) {
  require(count_ >= 1 && count_ <= 255, "PaletteMapper: expected 1 to 255 colours, got {}", count_);
  for (int c = 0; c < 3; ++c)
    for (const auto& color : palette.colors) colors_[c].push_back(color[c]);
  // Steps of width d have an rms error of d/sqrt(12), and dithering as wide as the step makes the mean exact.
  // It is limited, because a very coarse palette looks better with bands than with a visible grid.
  amplitude_ = palette.rms_error < 0.25 ? 0 : float(std::min(3.46 * palette.rms_error, 40.0));
}

uint8_t PaletteMapper::nearest(int r, int g, int b) {
  uint8_t& slot = known_[size_t(r) << 16 | size_t(g) << 8 | size_t(b)];
  if (slot == 0) {
    std::array<float, 255> distance;
    for (int k = 0; k < count_; ++k) {
      float dr = colors_[0][k] - float(r), dg = colors_[1][k] - float(g), db = colors_[2][k] - float(b);
      distance[k] = dr * dr + dg * dg + db * db;
    }
    slot = uint8_t(std::min_element(distance.begin(), distance.begin() + count_) - distance.begin() + 1);
  }
  return uint8_t(slot - 1);
}

void PaletteMapper::map(RgbView frame, uint8_t* indices, int64_t stride_bytes) {
  int offsets[8][8];
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x) {
      int rank = 0;  // Bayer's order: bits of x^y and y, interleaved, lowest first
      for (int bit = 0; bit < 3; ++bit) {
        rank |= ((x ^ y) >> bit & 1) << (5 - 2 * bit);
        rank |= (y >> bit & 1) << (4 - 2 * bit);
      }
      offsets[y][x] = int(std::lround(amplitude_ * (float(rank) + 0.5f - 32.0f) / 64.0f));
    }
  for (int y = 0; y < frame.height; ++y) {
    const uint8_t* p = frame.row(y);
    uint8_t* out = indices + y * stride_bytes;
    for (int x = 0; x < frame.width; ++x, p += 3) {
      int offset = offsets[y & 7][x & 7];
      out[x] = nearest(std::clamp(p[0] + offset, 0, 255), std::clamp(p[1] + offset, 0, 255),
                       std::clamp(p[2] + offset, 0, 255));
    }
  }
}

}  // namespace tachy
