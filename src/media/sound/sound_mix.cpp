#include "media/sound/sound_mix.h"

#include <algorithm>
#include <cmath>

#include "media/sound/resampler.h"

namespace tachy {

Sound mixed(const Sound& first, const Sound& second, bool in_turn) {
  Sound out = first;
  out.rate = std::max(first.rate, second.rate);
  if (first.rate != out.rate) out.samples = resample(first.samples, first.rate, out.rate);
  std::vector<float> other =
      second.rate == out.rate ? second.samples : resample(second.samples, second.rate, out.rate);
  const size_t begin = in_turn ? out.samples.size() : 0;
  out.samples.resize(std::max(out.samples.size(), begin + other.size()));
  for (size_t i = 0; i < other.size(); ++i) out.samples[begin + i] += other[i];
  float most = 1;
  for (const float v : out.samples) most = std::max(most, std::abs(v));
  if (most > 1)
    for (float& v : out.samples) v /= most;
  return out;
}

}  // namespace tachy
