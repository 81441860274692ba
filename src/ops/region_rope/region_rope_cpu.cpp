// There are two passes over the tokens, which keep their means in between. Most tokens of a picture are
// background, and all of these have the same row of the tables: it is computed once and copied, because sines
// take most of this op's time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/op_helpers.h"
#include "ops/region_rope/region_rope_impl.h"

namespace tachy::ops {
namespace {

constexpr int kRegions = RegionRopeArgs::kRegions, kSpeakers = RegionRopeArgs::kSpeakers;
constexpr int64_t kTile = 256;  // in tokens

struct Extremes {
  float least[kSpeakers], most[kSpeakers];
  Extremes() {
    std::fill_n(least, kSpeakers, std::numeric_limits<float>::infinity());
    std::fill_n(most, kSpeakers, -std::numeric_limits<float>::infinity());
  }
  void add(const Extremes& other) {
    for (int m = 0; m < kSpeakers; ++m) {
      least[m] = std::min(least[m], other.least[m]);
      most[m] = std::max(most[m], other.most[m]);
    }
  }
};

void look(const RegionRopeArgs& a, int64_t t, float* mean) {
  const int64_t heads = a.shares.dim(1);
  float sums[kRegions] = {};
  const float* row = a.shares.as<float>() + t * a.shares.stride(0);
  for (int64_t h = 0; h < heads; ++h, row += a.shares.stride(1))
    for (int m = 0; m < kRegions; ++m) sums[m] += row[m];
  const float* sizes = a.sizes.as<float>();
  for (int m = 0; m < kRegions; ++m)
    mean[m] = sizes[m] > 0 ? sums[m] / (static_cast<float>(heads) * sizes[m]) : 0.0f;
}

void fill_row(float position, const std::vector<float>& frequencies, float* cos, float* sin) {
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float angle = position * frequencies[i];
    cos[i] = std::cos(angle), sin[i] = std::sin(angle);
  }
}

}  // namespace

void region_rope_cpu(const RegionRopeArgs& a, Stream& stream) {
  const int64_t tokens = a.shares.dim(0), pairs = a.cos.dim(1);
  const ArenaScope scope(*stream.arena);
  const Tensor means = stream.arena->f32({tokens, kRegions});
  if (stream.measuring() || tokens == 0) return;
  std::vector<Extremes> tiles(static_cast<size_t>((tokens + kTile - 1) / kTile));
  parallel_ranges(stream, tokens, kTile, [&](int64_t begin, int64_t end, int) {
    Extremes& of = tiles[static_cast<size_t>(begin / kTile)];
    for (int64_t t = begin; t < end; ++t) {
      float* mean = means.as<float>() + t * kRegions;
      look(a, t, mean);
      for (int m = 0; m < kSpeakers; ++m)
        of.least[m] = std::min(of.least[m], mean[m]), of.most[m] = std::max(of.most[m], mean[m]);
    }
  });
  Extremes all;
  for (const Extremes& tile : tiles) all.add(tile);
  std::vector<float> frequencies, cos(static_cast<size_t>(pairs)), sin(static_cast<size_t>(pairs));
  for (int64_t i = 0; i < pairs; ++i)
    frequencies.push_back(static_cast<float>(
        std::pow(RegionRopeArgs::kTheta, -static_cast<double>(i) / static_cast<double>(pairs))));
  fill_row(RegionRopeArgs::kBackground, frequencies, cos.data(), sin.data());
  parallel_ranges(stream, tokens, kTile, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const float* mean = means.as<float>() + t * kRegions;
      const int64_t m = std::max_element(mean, mean + kRegions) - mean;
      float *to_cos = a.cos.as<float>() + t * pairs, *to_sin = a.sin.as<float>() + t * pairs;
      if (m >= kSpeakers) {
        std::copy(cos.begin(), cos.end(), to_cos), std::copy(sin.begin(), sin.end(), to_sin);
        continue;
      }
      const float width = all.most[m] - all.least[m] + RegionRopeArgs::kEpsilon;
      fill_row(RegionRopeArgs::kLow[m] + RegionRopeArgs::kSpan * (mean[m] - all.least[m]) / width,
               frequencies, to_cos, to_sin);
    }
  });
}

}  // namespace tachy::ops
