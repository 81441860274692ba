// Sound at another sampling rate, as librosa.load(sr=...) makes it: soxr's HQ recipe, bit for bit.
//
//   y[0 .. ceil(n·to/from))  from  x[0 .. n)
//
// The input may come in pieces of any size; how it is cut does not change a bit of the output. soxr's own end
// can lack the last sample (at 48 kHz for two lengths in three): librosa then adds a zero, and so does this.
//
// libsoxr itself, which swresample's engine of that name calls too: swresample keeps samples of its own, and
// asking it for those after the end of the input has crashed inside soxr. Its other engine is another filter
// (different from the first digits on), with which features of speech would not be those of the reference.
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
  Resampler(int from, int to);  // equal rates: the samples pass untouched
  ~Resampler();
  Resampler(const Resampler&) = delete;
  Resampler& operator=(const Resampler&) = delete;

  void push(std::span<const float> samples, std::vector<float>& out);  // appends what is ready
  void finish(std::vector<float>& out);                                // once: appends what is held back

 private:
  struct Engine;
  void process(const float* samples, size_t count, std::vector<float>& out);

  int from_, to_;
  int64_t taken_ = 0, given_ = 0;
  std::unique_ptr<Engine> engine_;
};

std::vector<float> resample(std::span<const float> samples, int from, int to);

}  // namespace tachy
