#include <cmath>
#include <limits>
#include <vector>

#include "ops/op_helpers.h"
#include "ops/region_rope/region_rope_impl.h"

namespace tachy::ops {
namespace {

template <class Real>
void define(const RegionRopeArgs& a, const Stream& stream) {
  if (stream.measuring()) return;
  constexpr int kRegions = RegionRopeArgs::kRegions, kSpeakers = RegionRopeArgs::kSpeakers;
  const int64_t tokens = a.shares.dim(0), heads = a.shares.dim(1), pairs = a.cos.dim(1);
  std::vector<Real> looks(static_cast<size_t>(tokens * kRegions));
  Real least[kRegions], most[kRegions];
  for (int m = 0; m < kRegions; ++m) {
    least[m] = std::numeric_limits<Real>::infinity(), most[m] = -least[m];
    const Real size = a.sizes.as<float>()[m];
    for (int64_t t = 0; t < tokens; ++t) {
      Real sum = 0;
      for (int64_t h = 0; h < heads; ++h)
        sum += a.shares.as<float>()[t * a.shares.stride(0) + h * a.shares.stride(1) + m];
      const Real mean = size > 0 ? sum / (static_cast<Real>(heads) * size) : Real{0};
      looks[static_cast<size_t>(t * kRegions + m)] = mean;
      least[m] = std::min(least[m], mean), most[m] = std::max(most[m], mean);
    }
  }
  for (int64_t t = 0; t < tokens; ++t) {
    const Real* look = &looks[static_cast<size_t>(t * kRegions)];
    const int64_t m = std::max_element(look, look + kRegions) - look;
    Real position = RegionRopeArgs::kBackground;
    if (m < kSpeakers)
      position = static_cast<Real>(RegionRopeArgs::kLow[m]) +
                 static_cast<Real>(RegionRopeArgs::kSpan) * (look[m] - least[m]) /
                     (most[m] - least[m] + static_cast<Real>(RegionRopeArgs::kEpsilon));
    for (int64_t i = 0; i < pairs; ++i) {
      const Real frequency = static_cast<Real>(
          std::pow(RegionRopeArgs::kTheta, -static_cast<double>(i) / static_cast<double>(pairs)));
      a.cos.as<float>()[t * pairs + i] = static_cast<float>(std::cos(position * frequency));
      a.sin.as<float>()[t * pairs + i] = static_cast<float>(std::sin(position * frequency));
    }
  }
}

}  // namespace

void region_rope_ref(const RegionRopeArgs& args, Stream& stream) { define<double>(args, stream); }
void region_rope_working(const RegionRopeArgs& args, Stream& stream) { define<float>(args, stream); }

}  // namespace tachy::ops
