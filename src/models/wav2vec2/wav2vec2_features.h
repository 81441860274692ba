// The front of wav2vec2: seven convolutions that make of samples [n] one vector of 512 for each 320 of them,
//   f = act(norm(conv(f)))       norm: of the first alone, each channel over all time ("group"), or of each, over the
//                                channels ("layer")
// and, since the transformer runs at a video's rate, their linear interpolation to so many frames, first on first and
// last on last (align_corners).
//
// The group norm's mean and variance are those of w·x over all windows x of the samples, which are w·mean(x) and
// w·Cov(x)·w: a kernel's worth of numbers, found on the host in float64. The norm then is part of the first
// convolution's weight and bias, and the rest needs no more of a clip than some seconds at a time.
#pragma once

#include <span>
#include <vector>

#include "models/wav2vec2/wav2vec2_config.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace tachy {

class Wav2Vec2Features {
 public:
  Wav2Vec2Features() = default;
  Wav2Vec2Features(const Scope& scope, const Wav2Vec2Config& config, nn::ParamStore& store);

  // samples [n] f32 on the host → y [vectors(n), features] f32 where the stream computes.
  void forward(const Tensor& samples, const Tensor& y, Stream& stream) const;

  // x [n, channels] → y [frames, channels], f32 where the stream computes; the sums on the host, in float64.
  static void interpolate(const Tensor& x, const Tensor& y, Stream& stream);

 private:
  struct Convolution {
    nn::Linear linear;  // of all but the first
    nn::Norm norm;      // or undefined
  };
  // The first convolution of these samples: weight [channels, kernel] and bias [channels], where the stream computes.
  struct First {
    Tensor weight, bias;
  };
  First first_of(const Tensor& samples, Stream& stream) const;
  void fold_group_norm(std::span<const float> samples, std::span<float> weight, std::span<float> bias) const;
  // Vectors [begin, end) of y.
  void piece(const Tensor& samples, const First& first, const Tensor& y, int64_t begin, int64_t end,
             Stream& stream) const;
  void convolve(size_t layer, const First& first, const Tensor& x, const Tensor& y, Stream& stream) const;

  Wav2Vec2Config config_;
  std::vector<float> weight_, bias_;  // the first convolution's, on the host
  std::vector<float> gain_, shift_;   // of the group norm behind it
  std::vector<Convolution> convolutions_;
};

}  // namespace tachy
