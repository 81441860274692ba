#include "denoise/block_schedule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tachy {
namespace {

double polynomial(std::span<const double> coefficients, double x) {
  double out = 0;
  for (const double c : coefficients) out = out * x + c;
  return out;
}

// Returns the ratio of a step of `all` for a branch. The first of the measured steps has the ratio 1, which is
// not in the table.
double ratio_of(std::span<const double> ratios, int step, int all, int64_t branch) {
  const auto measured = static_cast<int64_t>(ratios.size() / 2) + 1;
  // The nearest step; halves go to the even one, as in NumPy.
  const double at = all == 1 ? static_cast<double>(measured - 1)
                             : step * (static_cast<double>(measured - 1) / static_cast<double>(all - 1));
  const auto nearest = static_cast<int64_t>(std::nearbyint(at));
  if (nearest == 0) return 1;
  return ratios[static_cast<size_t>(2 * (nearest - 1) + std::min<int64_t>(branch, 1))];
}

// Says whether a branch's step lies in the part of the run that is always computed. The published code counts
// calls of the model, two for each step, and rounds down.
bool retained(const StepCacheValues& v, const BlockSteps& s, int step, int64_t branch) {
  const double call = 2 * step + static_cast<double>(std::min<int64_t>(branch, 1));
  const double all = 2 * s.all, second = 2 * s.second_from, rest = (all - second) * v.retention;
  if (s.second_from == 0) return call < std::floor(all * v.retention);
  if (v.first_expert_whole) return call < std::floor(second + rest);
  return call < std::floor(second * v.retention) || (call >= second && call <= second + rest);
}

}  // namespace

std::vector<uint32_t> teacache_steps(const StepCacheConfig& config, const BlockSteps& steps,
                                     std::span<const float> embeddings, int64_t width) {
  check(embeddings.size() == static_cast<size_t>(steps.count * width), ErrorCode::internal,
        "teacache: {} values for {} steps of {}", embeddings.size(), steps.count, width);
  std::vector<uint32_t> out(static_cast<size_t>(steps.count), 0);
  const uint32_t everyone = (uint32_t{1} << steps.branches) - 1;
  double sum = 0;
  for (int i = 1; i < steps.count; ++i) {
    if (steps.first + i + 1 == steps.all) continue;
    const float *now = embeddings.data() + i * width, *before = now - width;
    double apart = 0, size = 0;
    for (int64_t c = 0; c < width; ++c)
      apart += std::abs(static_cast<double>(now[c]) - before[c]), size += std::abs(before[c]);
    sum += polynomial(config.values.coefficients, apart / size);
    if (sum < config.threshold)
      out[static_cast<size_t>(i)] = everyone;
    else
      sum = 0;
  }
  return out;
}

std::vector<uint32_t> magcache_steps(const StepCacheConfig& config, const BlockSteps& steps) {
  std::vector<uint32_t> out(static_cast<size_t>(steps.count), 0);
  for (int64_t b = 0; b < steps.branches; ++b) {
    double ratio = 1, error = 0;
    int reused = 0;
    bool made = false;  // whether this network has run its blocks
    for (int i = 0; i < steps.count; ++i) {
      const int step = steps.first + i;
      if (retained(config.values, steps, step, b)) {
        made = true;
        continue;
      }
      ratio *= ratio_of(config.values.ratios, step, steps.all, b);
      error += std::abs(1 - ratio);
      if (++reused <= config.values.most && error < config.threshold && made) {
        out[static_cast<size_t>(i)] |= uint32_t{1} << b;
        continue;
      }
      ratio = 1, error = 0, reused = 0, made = true;
    }
  }
  return out;
}

}  // namespace tachy
