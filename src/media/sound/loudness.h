// Measures how loud a sound is, and makes sounds equally loud before a speech model hears them.
//
// Loudness is that of ITU-R BS.1770-4 for one channel, in LUFS:
//
//   y    = highpass(highshelf(x))                     two biquads (4 dB above 1500 Hz; 38 Hz)
//   z_j  = sum of y^2 over block j / (0.4 rate)       blocks of 0.4 s, a new one each 0.1 s
//   l(z) = -0.691 + 10 log10 z
//   L    = l(mean of z_j with l(z_j) > -70 and l(z_j) > l(mean of z_j with l(z_j) >= -70) - 10)
//
// The filters are those of pyloudnorm, which the models' own pipelines use: the numerator of its high pass
// differs from the standard's table, and its last block may end after the sound. Everything is in double
// precision. One pass over the sound adds each sample to the blocks that contain it.
#pragma once

#include <span>
#include <vector>

namespace tachy {

inline constexpr double kLoudnessBlockSeconds = 0.4;

// Returns LUFS, or minus infinity if no block is above -70 (silence). Throws invalid_argument for a sound of
// less than 0.4 s, which has no loudness, for a rate that Resampler does not accept, and for samples that are
// not finite.
double integrated_loudness(std::span<const float> samples, int rate);

// Brings the sound to `target` LUFS by one factor, without clipping. A sound whose loudness is beyond ±100
// (such as silence) is not changed. Throws what integrated_loudness throws.
void normalise_loudness(std::vector<float>& samples, int rate, double target = -23);

// x <- (x - mean) / sqrt(variance + 1e-7) over the whole sound, in float32, as transformers'
// Wav2Vec2FeatureExtractor does if a model's preprocessor_config.json sets do_normalize. The mean and the
// variance are summed in double precision and then rounded.
void standardise(std::vector<float>& samples);

}  // namespace tachy
