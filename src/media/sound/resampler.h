// Converts sound to another sampling rate as librosa.load(sr=...) does: with soxr's HQ recipe, bit for bit.
//
//   y[0 .. ceil(n·to/from))  from  x[0 .. n)
//
// The input may come in pieces of any size, and the output does not depend on them. soxr itself may omit the
// last sample (at 48 kHz for two lengths in three); librosa then adds a zero, and so does this.
//
// This calls libsoxr directly, as swresample's engine of that name does. swresample keeps samples of its own,
// and asking it for those after the end of the input has crashed inside soxr. Its other engine has a
// different filter (results differ from the first digits on), which would give speech features other than the
// reference's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tachy {

inline constexpr int kMinSampleRate = 1000, kMaxSampleRate = 768'000;

// ceil(samples * to / from)
int64_t resampled_length(int64_t samples, int from, int to);

class Resampler {
 public:
  Resampler(int from, int to);  // with equal rates, samples pass unchanged
  ~Resampler();
  Resampler(const Resampler&) = delete;
  Resampler& operator=(const Resampler&) = delete;

  void push(std::span<const float> samples, std::vector<float>& out);  // appends the samples that are ready
  void finish(std::vector<float>& out);  // call this once; it appends the samples that were held back

 private:
  struct Engine;
  void process(const float* samples, size_t count, std::vector<float>& out);

  int from_, to_;
  int64_t taken_ = 0, given_ = 0;
  std::unique_ptr<Engine> engine_;
};

std::vector<float> resample(std::span<const float> samples, int from, int to);

}  // namespace tachy
