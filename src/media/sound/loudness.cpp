#include "media/sound/loudness.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "media/sound/resampler.h"

namespace tachy {
namespace {

constexpr double kOffset = -0.691, kAbsoluteGate = -70, kRelativeGate = -10;
constexpr double kStep = 0.25;  // as a part of a block

// A second-order filter that starts from rest (transposed direct form II).
class Biquad {
 public:
  Biquad(double b0, double b1, double b2, double a0, double a1, double a2)
      : b0_(b0 / a0), b1_(b1 / a0), b2_(b2 / a0), a1_(a1 / a0), a2_(a2 / a0) {}
  double operator()(double x) {
    const double y = b0_ * x + s1_;
    s1_ = b1_ * x - a1_ * y + s2_;
    s2_ = b2_ * x - a2_ * y;
    return y;
  }

 private:
  double b0_, b1_, b2_, a1_, a2_, s1_ = 0, s2_ = 0;
};

Biquad high_shelf(int rate) {
  const double a = std::pow(10.0, 4.0 / 40), w = 2 * std::numbers::pi * (1500.0 / rate), c = std::cos(w);
  const double alpha = std::sin(w) / (2 / std::numbers::sqrt2), r = 2 * std::sqrt(a) * alpha;
  return {a * ((a + 1) + (a - 1) * c + r), -2 * a * ((a - 1) + (a + 1) * c), a * ((a + 1) + (a - 1) * c - r),
          (a + 1) - (a - 1) * c + r,       2 * ((a - 1) - (a + 1) * c),      (a + 1) - (a - 1) * c - r};
}

Biquad high_pass(int rate) {
  const double w = 2 * std::numbers::pi * (38.0 / rate), c = std::cos(w), alpha = std::sin(w) / (2 * 0.5);
  return {(1 + c) / 2, -(1 + c), (1 + c) / 2, 1 + alpha, -2 * c, 1 - alpha};
}

double loudness_of(double power) { return kOffset + 10 * std::log10(power); }

// Returns the first sample of the block that starts `blocks` blocks after the start. The product is rounded
// in the reference's order: in another order, some blocks would start one sample off.
size_t sample_at(double blocks, int rate) { return size_t(kLoudnessBlockSeconds * blocks * rate); }

// Returns the mean square of each block of the filtered sound.
std::vector<double> block_powers(std::span<const float> samples, int rate) {
  const double seconds = double(samples.size()) / rate;
  // A half is rounded to even, which is the processor's default.
  const size_t count =
      size_t(std::nearbyint((seconds - kLoudnessBlockSeconds) / (kLoudnessBlockSeconds * kStep)) + 1);
  std::vector<double> powers(count, 0.0);
  Biquad shelf = high_shelf(rate), pass = high_pass(rate);
  size_t first = 0, end = 0;  // range of the blocks that are open
  for (size_t i = 0; i < samples.size(); ++i) {
    require(std::isfinite(samples[i]), "loudness: sample {} of {} is not a finite number", i, samples.size());
    while (end < count && sample_at(double(end) * kStep, rate) <= i) ++end;
    while (first < end && sample_at(double(first) * kStep + 1, rate) <= i) ++first;
    const double y = pass(shelf(samples[i]));
    for (size_t j = first; j < end; ++j) powers[j] += y * y;
  }
  for (double& power : powers) power *= 1 / (kLoudnessBlockSeconds * rate);
  return powers;
}

template <class Keep>
double mean_where(const std::vector<double>& powers, Keep keep) {
  double sum = 0;
  size_t count = 0;
  for (const double power : powers)
    if (keep(loudness_of(power))) sum += power, ++count;
  return count > 0 ? sum / double(count) : 0;
}

}  // namespace

double integrated_loudness(std::span<const float> samples, int rate) {
  require(rate >= kMinSampleRate && rate <= kMaxSampleRate,
          "loudness: expected a sampling rate of {} to {} Hz, got {}", kMinSampleRate, kMaxSampleRate, rate);
  require(double(samples.size()) >= kLoudnessBlockSeconds * rate,
          "loudness: expected at least {} s of sound, got {} samples at {} Hz", kLoudnessBlockSeconds,
          samples.size(), rate);
  const std::vector<double> powers = block_powers(samples, rate);
  const double rough = mean_where(powers, [](double l) { return l >= kAbsoluteGate; });
  if (rough == 0) return -std::numeric_limits<double>::infinity();
  const double gate = loudness_of(rough) + kRelativeGate;
  return loudness_of(mean_where(powers, [gate](double l) { return l > gate && l > kAbsoluteGate; }));
}

void normalise_loudness(std::vector<float>& samples, int rate, double target) {
  require(std::isfinite(target), "loudness: the target is not a finite number");
  const double loudness = integrated_loudness(samples, rate);
  if (std::abs(loudness) > 100) return;
  const double gain = std::pow(10.0, (target - loudness) / 20);
  for (float& v : samples) v = float(gain * v);
}

void standardise(std::vector<float>& samples) {
  if (samples.empty()) return;
  const double count = double(samples.size());
  double sum = 0, squares = 0;
  for (const float v : samples) sum += v;
  const float mean = float(sum / count);
  for (const float v : samples) {
    const float away = v - mean;
    squares += double(away) * away;
  }
  const float deviation = std::sqrt(float(squares / count) + 1e-7f);
  for (float& v : samples) v = (v - mean) / deviation;
}

}  // namespace tachy
