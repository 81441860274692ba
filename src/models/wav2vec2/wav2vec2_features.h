// The front of wav2vec2: seven convolutions turn samples [n] into one vector of 512 for each 320 samples,
//   f = act(norm(conv(f)))       norm: only the first, each channel over all time ("group"),
//                                or each convolution, over the channels ("layer")
// The transformer runs at a video's rate, so the vectors are then interpolated linearly to the number of
// frames. The first and the last vector become the first and the last frame (align_corners).
//
// The group norm's mean and variance are those of w·x over all windows x of the samples, which are w·mean(x)
// and w·Cov(x)·w. They follow from a few numbers per tap, which the host computes in float64. The norm then
// becomes part of the first convolution's weight and bias, so only a few seconds of the clip need to be in
// memory at a time.
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

  // Turns samples [n] f32 on the host into y [vectors(n), features] f32 where the stream computes.
  void forward(const Tensor& samples, const Tensor& y, Stream& stream) const;

  // Turns x [n, channels] into y [frames, channels], f32 where the stream computes. The sums are computed on
  // the host in float64.
  static void interpolate(const Tensor& x, const Tensor& y, Stream& stream);

 private:
  struct Convolution {
    nn::Linear linear;  // defined for all but the first
    nn::Norm norm;      // may be undefined
  };
  // The first convolution for these samples, where the stream computes: weight [channels, kernel] and bias
  // [channels].
  struct First {
    Tensor weight, bias;
  };
  First first_of(const Tensor& samples, Stream& stream) const;
  void fold_group_norm(std::span<const float> samples, std::span<float> weight, std::span<float> bias) const;
  // Computes vectors [begin, end) of y.
  void piece(const Tensor& samples, const First& first, const Tensor& y, int64_t begin, int64_t end,
             Stream& stream) const;
  void convolve(size_t layer, const First& first, const Tensor& x, const Tensor& y, Stream& stream) const;

  Wav2Vec2Config config_;
  std::vector<float> weight_, bias_;  // the first convolution's, on the host
  std::vector<float> gain_, shift_;   // parameters of the group norm after it
  std::vector<Convolution> convolutions_;
};

}  // namespace tachy
